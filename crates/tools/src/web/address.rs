//! Public and private addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The ranges of IPv4 that are not public: first address and prefix length (IANA's special-purpose registry, and
/// reserved ranges).
const V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([192, 175, 48, 0], 24),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    // A cloud's metadata service, in a public range.
    ([168, 63, 129, 16], 32),
];

/// The same for IPv6, within 2000::/3; all other addresses are not public.
const V6: &[([u16; 8], u32)] = &[
    // Protocol assignments, documentation, benchmarking, ORCHID.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48),
];

/// Whether an address is on the public internet: not this machine, a private network, a cloud's metadata service,
/// multicast, or reserved; nor an IPv6 address that embeds such an IPv4 address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !V4.iter().any(|(first, length)| {
        let first = Ipv4Addr::from_octets(*first).to_bits();
        (bits ^ first) >> (32 - length) == 0
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let parts = address.segments();
    // NAT64 and 6to4 lead to the IPv4 address within.
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return is_public_v4(Ipv4Addr::from_bits(bits as u32));
    }
    if parts[0] == 0x2002 {
        return is_public_v4(Ipv4Addr::from_bits((bits >> 80) as u32));
    }
    // All public addresses are in 2000::/3, so IPv4-mapped, local and multicast addresses are not.
    let is_global = parts[0] >> 13 == 0b001;
    is_global
        && !V6.iter().any(|(first, length)| {
            let first = Ipv6Addr::from_segments(*first).to_bits();
            (bits ^ first) >> (128 - length) == 0
        })
}
