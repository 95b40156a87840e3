"""Examples from where events already are: Redis Streams, NATS JetStream, Kafka; each behind one module.

A `Broker` hands out messages from any place on; `MessageStream` makes rows of them. The place is a part of the
stream's position, and so of checkpoints: what a killed run had not kept is read again, and nothing else. A broker is
told only what a checkpoint has.
"""

from thinstream.streams.brokers.address import Address, is_address, shown
from thinstream.streams.brokers.following import ON_GAP, Following

__all__ = ["ON_GAP", "Address", "Following", "is_address", "shown"]
