"""Valid conversations of all protocols, and what makes them invalid: bits, lengths, splices and cuts
that a random number generator chooses.
"""

import script as wire
from c10d import length


def fields(text):
    """Bytes in the notation of *.wire files."""
    return wire.parse_fields(wire.Tokens(text))({})


VALID = [fields(text) for text in (
    'HS M:SET str:"/k" str:"value" M:GET str:"/k" M:ADD str:"/n" i64:1',
    'HS M:WAIT list:"/k","/n" M:CHECK list:"/k","/x" M:CANCEL_WAIT M:GETNUMKEYS',
    'HS M:MULTI_SET u64:2 str:"/a" str:"1" str:"/b" str:"2" M:MULTI_GET list:"/a","/b"',
    'HS M:QUEUE_PUSH str:"/q" str:"i" M:QUEUE_LEN str:"/q" M:QUEUE_POP str:"/q" M:WAIT list:"/q"',
    'HS M:BARRIER str:"/c" i64:2 M:LIST_KEYS M:DELETE_KEY str:"/k" M:APPEND str:"/k" str:"x"',
    'HS M:COMPARE_SET str:"/k" str:"" str:"new" M:COMPARE_SET str:"/k" str:"new" str:"newer"',
    'C:SET str:"/k" str:"value" C:GET str:"/k" C:WAIT list:"/w" C:CHECK list:"/k"',
    'C:WATCH_KEY str:"/k" C:ADD str:"/n" i64:-1 C:COMPARE_SET str:"/k" str:"a" str:"b"',
    'head:"GET /v2/keys/k?recursive=true&sorted=true HTTP/1.1","Host: x"*3',
    'head:"PUT /v2/keys/k%2Fl?ttl=5&prevExist=false HTTP/1.1","Host: x","Content-Length: 9",'
    '"Content-Type: application/x-www-form-urlencoded" "value=a%62"',
    'head:"PUT /v2/keys/k HTTP/1.1","Host: x","Transfer-Encoding: chunked",'
    '"Content-Type: application/x-www-form-urlencoded" "6;x=y\\r\\nvalue=\\r\\n3\\r\\nabc\\r\\n"'
    '"0\\r\\nT: v\\r\\n\\r\\n"',
    'head:"GET /v2/keys/w?wait=true&stream=true&waitIndex=2 HTTP/1.1","Host: x"',
    'head:"GET /v2//keys/../x HTTP/1.0","Connection: keep-alive" head:"HEAD / HTTP/1.0"',
    'head:"PUT /v2/members/1 HTTP/1.1","Host: x","Content-Type: application/json",'
    '"Expect: 100-continue","Content-Length: 15" "{\\"peerURLs\\":[}"',
    'head:"POST /v2/members HTTP/1.1","Host: x","Content-Type: application/json",'
    '"Content-Length: 30" "{\\"peerURLs\\":[\\"http://a:1/p\\"]}  "',
    'head:"DELETE /v2/keys/k?dir=true&prevValue=1 HTTP/1.1","Host: x","Authorization: Basic eDp5"',
    'head:"GET /v2/keys/k?wait=true HTTP/1.1","Host: x" head:"GET /metrics HTTP/1.1","Host: x"'
    'head:"GET /v2/keys/?wait=true&recursive=true HTTP/1.1","Host: x"'
    'head:"GET /v2/keys/n?wait=true HTTP/1.1","Host: x"',
    'head:"PUT /v2/keys/k?value=1 HTTP/1.1","Host: x" head:"POST /v2/keys/d?value=1 HTTP/1.1",'
    '"Host: x" head:"PUT /v2/keys/t?value=1&ttl=0 HTTP/1.1","Host: x"'
    'head:"DELETE /v2/keys/d?recursive=true HTTP/1.1","Host: x"',
    'head:"DELETE /rdzv/v1/spaces/bad HTTP/1.1","Host: x","Authorization: Bearer operator-of-tests" head:"GET /rdzv/v1/spaces HTTP/1.1",'
    '"Host: x" head:"GET /readyz?verbose HTTP/1.1","Host: x"',
)]
EXTREMES = [length(n) for n in (
    0, 1, 0xff, 8192, 8193, 131072, 131073, 8388608, 8388609, 1 << 31, (1 << 32) - 1, 1 << 32,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)]


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            del data[at:at + rng.choice((1, 4, 8, 40))]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 8, 100)))
        elif kind == 4:
            data[at:at + 8] = rng.choice(EXTREMES)
        elif kind == 5:
            data += rng.choice(VALID)
        else:
            data[at:at] = data[:at]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)
