//! IP addresses: which are public and which are reserved for special uses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges that are not public, from IANA's special-purpose address registries (RFC 6890, 2025): first address and
/// prefix length.
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    // This network.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    // Private.
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Shared address space of a provider (RFC 6598).
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, which includes the metadata services of clouds with their credentials.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Protocol assignments.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Deprecated 6to4 relays.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, broadcast.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::BROADCAST, 32),
];

/// Returns the IPv4 address of an IPv4-mapped IPv6 address; every other address unchanged.
pub fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Returns `true` if an address is public: in no private network, not on this machine or its link, and in none of the
/// special ranges. An address that embeds another one, such as those of relays and translators, is judged by the embedded
/// address.
pub fn is_public(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let address = address.to_bits();
    !SPECIAL_V4.iter().any(|(first, bits)| (address ^ first.to_bits()) >> (32 - bits) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s {
        // IPv4/IPv6 translators (RFC 6052), and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(v4(high, low)),
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Protocol assignments including Teredo; documentation; benchmarks.
        [0x2001, second, ..] if second < 0x200 => false,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is `2000::/3`. The rest holds loopback, unspecified, link-local, private (`fc00::/7`) and
        // site-local addresses, multicast, discard-only, local translators, and unallocated ranges.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_known() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("93.184.216.34", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("198.51.100.7", false),
            ("203.0.113.7", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700:4700::1111", true),
            ("2a00:1450::1", true),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            // Deprecated IPv4-compatible addresses.
            ("::127.0.0.1", false),
            ("::1.1.1.1", false),
            ("64:ff9b::a00:1", false),
            ("64:ff9b::101:101", true),
            ("64:ff9b:1::a00:1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:1ff::1", false),
            ("2001:200::1", true),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("2002:101:101::", true),
            ("3fff:1::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("4000::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
