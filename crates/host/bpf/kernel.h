/* Fields of Linux that the programs read. CO-RE finds them in any kernel, without vmlinux.h. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KFUNC extern __attribute__((section(".ksyms")))

/* Map definitions as libbpf reads them from BTF. */
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_SK_STORAGE = 24, MAP_RINGBUF = 27 };
enum { F_NO_PREALLOC = 1, F_CREATE = 1 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static long (*packet_load)(const void *skb, u32 at, void *to, u32 bytes) = (void *)26;
static u64 (*socket_cookie)(void *ctx) = (void *)46;
static long (*set_option)(void *socket, int level, int option, void *value, int bytes) = (void *)49;
static long (*get_option)(void *socket, int level, int option, void *value, int bytes) = (void *)57;
static long (*packet_load_from)(const void *skb, u32 at, void *to, u32 bytes, u32 head) = (void *)68;
static void *(*storage)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*seq_write)(void *seq, const void *data, u32 bytes) = (void *)127;
static void *(*ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*ring_submit)(void *data, u64 flags) = (void *)132;
static void (*ring_discard)(void *data, u64 flags) = (void *)133;
static void *(*to_tcp_sock)(void *sk) = (void *)137;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
};

struct dst_entry {
	struct net_device *dev;
};

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u8 skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 srtt_us;
	u32 mdev_us;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 prior_cwnd;
	u32 max_packets_out;
	u8 is_cwnd_limited : 1;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 snd_wnd;
	u32 delivered;
	u32 lost;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 total_retrans;
	u64 bytes_acked;
	u32 data_segs_out;
	u32 reordering;
	struct tcp_rack rack;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct rate_sample {
	u32 prior_delivered;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	u32 flags;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct sk_buff {
	u32 len;
};

#pragma clang attribute pop

/* The kernel's user interface, which keeps its layout. */
struct bpf_sock;
struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 is_fullsock;
	u32 unused[21];
	u32 sk_txhash;
	u64 bytes_received;
	u64 bytes_acked;
	struct bpf_sock *sk;
};

/* A packet as the filter of a socket sees it; this is its beginning. */
struct __sk_buff {
	u32 len;
};

enum { HEAD_OF_LINK = 0, HEAD_OF_NETWORK = 1 };
enum { OP_CONNECT = 3, OP_ACCEPTED = 5 };
enum { INET = 2, INET6 = 10 };
enum { ESTABLISHED = 1 };
enum { CA_LOSS = 4 };
enum tcp_ca_event { TX_START = 0 };
enum { NON_RESTRICTED = 1 };
enum { SOL_TCP = 6, TCP_NODELAY = 1, TCP_CONGESTION = 13 };

/* A bit field at whatever place the running kernel has it. */
INLINE u64 is_cwnd_limited_bit(const struct tcp_sock *tp)
{
	const char *at = (const char *)tp + __builtin_preserve_field_info(tp->is_cwnd_limited, 0);
	u64 value = 0;

	switch (__builtin_preserve_field_info(tp->is_cwnd_limited, 1)) {
	case 1: value = *(const u8 *)at; break;
	case 2: value = *(const u16 *)at; break;
	case 4: value = *(const u32 *)at; break;
	case 8: value = *(const u64 *)at; break;
	}
	value <<= __builtin_preserve_field_info(tp->is_cwnd_limited, 4);
	return value >> __builtin_preserve_field_info(tp->is_cwnd_limited, 5);
}

/* tcp_is_cwnd_limited() of the kernel. */
INLINE u64 is_cwnd_limited(const struct tcp_sock *tp)
{
	if (is_cwnd_limited_bit(tp))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* The interface that a connection sends on; 0 if there is none. */
INLINE u32 interface_of(struct tcp_sock *tp)
{
	struct dst_entry *dst = tp->inet_conn.icsk_inet.sk.sk_dst_cache;

	if (!dst)
		return 0;
	struct net_device *dev = dst->dev;

	return dev ? dev->ifindex : 0;
}

/* It sends by IPv6, and not by IPv4 on a socket of IPv6. */
INLINE int is_v6(struct tcp_sock *tp)
{
	const struct sock_common *common = &tp->inet_conn.icsk_inet.sk.__sk_common;

	if (common->skc_family != INET6)
		return 0;
	const u32 *far = common->skc_v6_daddr.in6_u.u6_addr32;

	return far[0] || far[1] || far[2] != __builtin_bswap32(0xffff);
}
