//! Real header bytes: packets of the simulator as IPv4 or IPv6, TCP, UDP and ICMP with correct checksums.
