"""The rendezvous backend `rdzvd` of torchrun, from torch 2.4 on: torch's own c10d backend, behind a relay that ends
with the agent.

torch's registry loads the entry point, calls get_handler(), and registers the function that it returns."""

import logging

from rdzvd.relay import Relay, RelayError
from rdzvd.settings import FLAGS, SettingError, flags_of

log = logging.getLogger("rdzvd")

READ_TIMEOUT_S = 60  # torch's default


def _connection_error(text):
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError
    return RendezvousConnectionError(text)


def _start_relay(params):
    """Returns the child of this agent, ready."""
    conf = dict(params.config)
    try:
        flags, role = flags_of(params.endpoint, params.run_id, conf)
        if role == "store" and params.max_nodes > 1:
            raise SettingError("--rdzv-endpoint=HOST:PORT is missing: with --nnodes=%d:%d, all agents need one store."
                               % (params.min_nodes, params.max_nodes))
        relay = Relay(flags, role)
    except (RelayError, SettingError) as error:
        raise _connection_error(str(error)) from None  # one traceback is enough: the error has all words
    try:
        relay.wait_ready(int(conf.get("read_timeout") or READ_TIMEOUT_S))
    except RelayError as error:
        relay.stop()
        raise _connection_error("%s (--rdzv-endpoint=%s)" % (error, params.endpoint)) from None
    log.info("The %s of this agent listens at %s:%d.", role, relay.host, relay.port)
    return relay


def _create_handler(params):
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

    from rdzvd.handler import RelayedHandler
    from rdzvd.store import ReconnectingStore

    relay = _start_relay(params)
    conf = {key: value for key, value in params.config.items() if key not in FLAGS}
    conf.update(is_host="0", store_type="tcp")
    own = RendezvousParameters("c10d", "%s:%d" % (relay.host, relay.port), params.run_id, params.min_nodes,
                               params.max_nodes, params.local_addr, **conf)
    store = ReconnectingStore(relay, lambda: create_backend(own)[1])
    return RelayedHandler(create_handler(store, C10dRendezvousBackend(store, params.run_id), own), relay)


def get_handler():
    return _create_handler
