"""torch's rendezvous handler, except that the workers of each agent find their store behind the relay of their agent.

The store shows all agents the address of one agent's relay. On another machine it means nothing, and on the same
machine it is another agent's relay, which may end sooner. So each agent puts its own relay's address in its place.
Other addresses stay: the store's --advertise, or worker 0's (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, torch 2.4)."""

import sys

from torch.distributed.elastic.rendezvous.api import (
    RendezvousGracefulExitError, RendezvousHandler, RendezvousInfo, RendezvousStoreInfo)

from rdzvd.relay import is_relay_address


class RelayedHandler(RendezvousHandler):
    def __init__(self, handler, relay):
        self._handler, self._relay = handler, relay

    def get_backend(self):
        return "rdzvd"

    @property
    def use_agent_store(self):
        return self._handler.use_agent_store

    def next_rendezvous(self):
        try:
            info = self._handler.next_rendezvous()
        except RendezvousGracefulExitError:  # a spare; torch would end with an AttributeError (pytorch#194710)
            if self._relay.has_ended_well(self.get_run_id()):
                sys.exit(0)
            raise
        place = info.bootstrap_store_info
        if place is not None and is_relay_address(place.master_addr):
            place = RendezvousStoreInfo(self._relay.host, self._relay.port)
        return RendezvousInfo(info.store, info.rank, info.world_size, place)

    def is_closed(self):
        return self._handler.is_closed()

    def set_closed(self):
        self._handler.set_closed()

    def num_nodes_waiting(self):
        return self._handler.num_nodes_waiting()

    def get_run_id(self):
        return self._handler.get_run_id()

    def shutdown(self):
        try:
            return self._handler.shutdown()
        finally:
            self._relay.stop()
