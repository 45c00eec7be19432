/* Requests, and answers to them, as literals: c10d's of the modern version, and HTTP's. */
#pragma once

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(s)  (s), sizeof(s) - 1 /* a literal that may have NULs in it */

#define VALIDATE "\0\xce\xf7\x85\x3c"
#define PING \
    "\x0d"   \
    "abcd"
#define CANCEL    "\x0c"
#define LIST      "\x11"
#define SET_K     "\1\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
#define SET_J     "\1\2\0\0\0\0\0\0\0/j\1\0\0\0\0\0\0\0w"
#define GET_K     "\3\2\0\0\0\0\0\0\0/k"
#define GET_N     "\3\2\0\0\0\0\0\0\0/n"
#define GET_A     "\3\2\0\0\0\0\0\0\0/a"
#define GET_B     "\3\2\0\0\0\0\0\0\0/b"
#define WAIT_K    "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"
#define WAIT_J    "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/j"
#define WAIT_JK   "\6\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/j\2\0\0\0\0\0\0\0/k"
#define ADD_N     "\4\2\0\0\0\0\0\0\0/n\1\0\0\0\0\0\0\0"
#define DELETE_K  "\x08\2\0\0\0\0\0\0\0/k"
#define DELETE_J  "\x08\2\0\0\0\0\0\0\0/j"
#define APPEND_A  "\x09\2\0\0\0\0\0\0\0/a\1\0\0\0\0\0\0\0x"
#define CAS_K     "\2\2\0\0\0\0\0\0\0/k\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0v"
#define CAS_J_K   "\2\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0x\1\0\0\0\0\0\0\0y"
#define MULTI_SET "\x0b\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
#define PUSH_Q    "\x0e\2\0\0\0\0\0\0\0/q\1\0\0\0\0\0\0\0e"
#define POP_Q     "\x0f\2\0\0\0\0\0\0\0/q"
#define LEN_Q     "\x10\2\0\0\0\0\0\0\0/q"
#define BARRIER_1 "\x12\2\0\0\0\0\0\0\0/b\1\0\0\0\0\0\0\0"
#define BARRIER_2 "\x12\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0"
#define VALUE_V   "\1\0\0\0\0\0\0\0v"
#define ONE       "\1\0\0\0\0\0\0\0"
#define TWO       "\2\0\0\0\0\0\0\0"

/* Of the legacy version. */
#define LEGACY_WAIT_JK "\5\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/j\2\0\0\0\0\0\0\0/k"
#define LEGACY_SET_K   "\0\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"

#define WATCH "GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: x\r\n\r\n"
#define GET_1 "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
#define FORM  "Content-Type: application/x-www-form-urlencoded\r\n"
#define PUT_K "PUT /v2/keys/k HTTP/1.1\r\nHost: x\r\n" FORM "Content-Length: 7\r\n\r\nvalue=1"
