/* The kernel's TCP as it works: an event for each ACK that a sender gets, each retransmission and each change of state. */
#include "kernel.h"

char _license[] SEC("license") = "Dual MIT/GPL";

enum { ON_ACK, ON_RETRANSMISSION, ON_STATE };

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 22);
} events SEC(".maps");

/* 0: all. */
struct wanted {
	u32 port, interface, network, unused;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct wanted);
} wanted SEC(".maps");

/* Events that found the ring full. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} lost SEC(".maps");

struct event {
	u64 at_ns, cookie, acked_bytes, segments_sent;
	u32 kind, state, cwnd, ssthresh, srtt_us, window_bytes, mss, packets_out, sacked_out, lost_out, retrans_out, retransmitted;
	u32 family, ports;
	u32 near[4], far[4];
};

INLINE int is_wanted(const struct sock_common *common, struct tcp_sock *tp)
{
	u32 zero = 0;
	struct wanted *w = map_lookup(&wanted, &zero);

	if (!w)
		return 0;
	if (w->port && w->port != common->skc_num && w->port != __builtin_bswap16(common->skc_dport))
		return 0;
	if (w->network && w->network != common->skc_net.net->ns.inum)
		return 0;
	return !w->interface || w->interface == interface_of(tp);
}

INLINE void tell(struct tcp_sock *tp, u32 kind, u32 state)
{
	const struct sock_common *common = &tp->inet_conn.icsk_inet.sk.__sk_common;

	if (!is_wanted(common, tp))
		return;
	struct event *e = ring_reserve(&events, sizeof(*e), 0);

	if (!e) {
		u32 zero = 0;
		u64 *n = map_lookup(&lost, &zero);

		if (n)
			__sync_fetch_and_add(n, 1);
		return;
	}
	e->at_ns = ktime_ns();
	e->cookie = socket_cookie(tp);
	e->acked_bytes = tp->bytes_acked;
	e->segments_sent = tp->data_segs_out;
	e->kind = kind;
	e->state = state;
	e->cwnd = tp->snd_cwnd;
	e->ssthresh = tp->snd_ssthresh;
	e->srtt_us = tp->srtt_us >> 3;
	e->window_bytes = tp->snd_wnd;
	e->mss = tp->mss_cache;
	e->packets_out = tp->packets_out;
	e->sacked_out = tp->sacked_out;
	e->lost_out = tp->lost_out;
	e->retrans_out = tp->retrans_out;
	e->retransmitted = tp->total_retrans;
	e->family = common->skc_family;
	e->ports = (u32)common->skc_num << 16 | (u16)__builtin_bswap16(common->skc_dport);
	if (common->skc_family == INET6) {
		e->near[0] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		e->near[1] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		e->near[2] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		e->near[3] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		e->far[0] = common->skc_v6_daddr.in6_u.u6_addr32[0];
		e->far[1] = common->skc_v6_daddr.in6_u.u6_addr32[1];
		e->far[2] = common->skc_v6_daddr.in6_u.u6_addr32[2];
		e->far[3] = common->skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		e->near[0] = e->near[1] = e->far[0] = e->far[1] = 0;
		e->near[2] = e->far[2] = __builtin_bswap32(0xffff);
		e->near[3] = common->skc_rcv_saddr;
		e->far[3] = common->skc_daddr;
	}
	ring_submit(e, 0);
}

/* Comes before the kernel takes the ACK in: the state is that after the ACK before. */
SEC("tp_btf/tcp_probe") int acked(u64 *ctx)
{
	struct tcp_sock *tp = to_tcp_sock((void *)ctx[0]);

	/* A connection with nothing on its way only receives. */
	if (tp && tp->packets_out)
		tell(tp, ON_ACK, 0);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb") int retransmitted(u64 *ctx)
{
	struct tcp_sock *tp = to_tcp_sock((void *)ctx[0]);

	if (tp)
		tell(tp, ON_RETRANSMISSION, 0);
	return 0;
}

SEC("tp_btf/inet_sock_set_state") int changed(u64 *ctx)
{
	struct tcp_sock *tp = to_tcp_sock((void *)ctx[0]);
	u32 state = ctx[2];

	if (tp)
		tell(tp, ON_STATE, state);
	return 0;
}
