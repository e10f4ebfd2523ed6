/* The cooperative daemon's side in the kernel: readings of all connections, and caps as leases that end by themselves.
 * A capped connection has its own control behind a wrapper. TCP_BPF_SNDCWND_CLAMP is not used: it would outlive the daemon.
 * Each daemon gives its wrappers names of their own, so that many can run on one kernel. */
#include "lease.h"

char _license[] SEC("license") = "Dual MIT/GPL";

KFUNC void cubictcp_init(struct sock *sk);
KFUNC u32 cubictcp_recalc_ssthresh(struct sock *sk);
KFUNC void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked);
KFUNC void cubictcp_state(struct sock *sk, u8 new_state);
KFUNC void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event);
KFUNC void cubictcp_acked(struct sock *sk, const struct ack_sample *sample);
KFUNC u32 tcp_reno_ssthresh(struct sock *sk);
KFUNC void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
KFUNC u32 tcp_reno_undo_cwnd(struct sock *sk);

/* Orders of the daemon for a connection, by cookie. */
struct command {
	struct law_lease lease;
	/* The control that it is to have. Empty: the one that it has. */
	char control[16];
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, u64);
	TYPE(value, struct command);
} commands SEC(".maps");

SEC("struct_ops/cubic_init") void cubic_init(u64 *ctx)
{
	cubictcp_init((struct sock *)ctx[0]);
}

SEC("struct_ops/cubic_cong_avoid") void cubic_cong_avoid(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 ack = ctx[1], acked = ctx[2];

	if (is_held(tp))
		return;
	cubictcp_cong_avoid((struct sock *)tp, ack, acked);
	is_held(tp);
}

SEC("struct_ops/cubic_ssthresh") u32 cubic_ssthresh(u64 *ctx)
{
	return cubictcp_recalc_ssthresh((struct sock *)ctx[0]);
}

SEC("struct_ops/cubic_state") void cubic_state(u64 *ctx)
{
	u8 to = ctx[1];

	cubictcp_state((struct sock *)ctx[0], to);
}

SEC("struct_ops/cubic_event") void cubic_event(u64 *ctx)
{
	u32 event = ctx[1];

	cubictcp_cwnd_event((struct sock *)ctx[0], event);
}

SEC("struct_ops/cubic_acked") void cubic_acked(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	const struct ack_sample *sample = (void *)ctx[1];

	/* HyStart would end slow start by the delay of a capped window. */
	if (!is_held(tp))
		cubictcp_acked((struct sock *)tp, sample);
}

SEC("struct_ops/undo") u32 undo(u64 *ctx)
{
	return tcp_reno_undo_cwnd((struct sock *)ctx[0]);
}

SEC("struct_ops/reno_cong_avoid") void reno_cong_avoid(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 ack = ctx[1], acked = ctx[2];

	if (is_held(tp))
		return;
	tcp_reno_cong_avoid((struct sock *)tp, ack, acked);
	is_held(tp);
}

SEC("struct_ops/reno_ssthresh") u32 reno_ssthresh(u64 *ctx)
{
	return tcp_reno_ssthresh((struct sock *)ctx[0]);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops airtcp_cubic = {
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_state,
	.cwnd_event = (void *)cubic_event,
	.pkts_acked = (void *)cubic_acked,
	.undo_cwnd = (void *)undo,
	.name = "airtcp_cubic",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops airtcp_reno = {
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_cong_avoid,
	.undo_cwnd = (void *)undo,
	.name = "airtcp_reno",
};

/* One connection, as user space reads it: 64-bit words. */
struct reading {
	u64 cookie, interface, acked_bytes, outstanding_bytes, cwnd, ssthresh, srtt_us, rtt_us, mss, cap, until_ns, family;
	u64 near[2], far[2];
	char control[16];
};

SEC("iter/tcp") int pass(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (!common)
		return 0;
	struct tcp_sock *tp = to_tcp_sock(common);

	if (!tp || common->skc_state != ESTABLISHED)
		return 0;
	struct reading r = {};

	r.cookie = socket_cookie(tp);
	r.interface = interface_of(tp);
	r.acked_bytes = tp->bytes_acked;
	r.outstanding_bytes = (u32)(tp->write_seq - tp->snd_una);
	r.cwnd = tp->snd_cwnd;
	r.ssthresh = tp->snd_ssthresh;
	r.srtt_us = tp->srtt_us >> 3;
	r.rtt_us = tp->rack.rtt_us;
	r.mss = tp->mss_cache;
	r.family = common->skc_family;
	if (common->skc_family == INET) {
		r.near[1] = common->skc_rcv_saddr;
		r.far[1] = common->skc_daddr;
	} else {
		u32 *near = (u32 *)r.near, *far = (u32 *)r.far;

		near[0] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		near[1] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		near[2] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		near[3] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		far[0] = common->skc_v6_daddr.in6_u.u6_addr32[0];
		far[1] = common->skc_v6_daddr.in6_u.u6_addr32[1];
		far[2] = common->skc_v6_daddr.in6_u.u6_addr32[2];
		far[3] = common->skc_v6_daddr.in6_u.u6_addr32[3];
	}
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;

	if (ops)
		read_kernel(r.control, sizeof(r.control), &ops->name);
	struct command *command = map_lookup(&commands, &r.cookie);

	if (command) {
		struct law_lease *lease = storage(&leases, tp, 0, F_CREATE);

		if (lease)
			*lease = command->lease;
		/* The kernel gives a control a fresh start, so none is set that is there. */
		if (command->control[0])
			set_option(tp, SOL_TCP, TCP_CONGESTION, command->control, sizeof(command->control));
		command->control[0] = 0;
	}
	struct law_lease *lease = storage(&leases, tp, 0, 0);

	if (lease) {
		r.cap = lease->cap;
		r.until_ns = lease->until_ns;
	}
	seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

/* An announcement, and who sent it: an address that it may choose, and the address of its radio or network card. */
struct heard {
	u64 bytes;
	u64 family;
	u8 from[16];
	u8 link[8];
	u8 payload[32];
};

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 16);
} announcements SEC(".maps");

enum { UDP_HEAD = 8, PLAIN = 24, WITH_SCOPE = 32, MOST_HOPS = 255 };

/* The filter of the sockets that hear announcements. It hands them over with the sender's address on the link, which a socket does not
 * tell, and keeps nothing for the socket. A packet that came over a router has fewer hops left than 255. */
SEC("socket") int hear(struct __sk_buff *skb)
{
	u8 head[8];
	u32 magic, bytes = skb->len - UDP_HEAD;

	if (bytes != PLAIN && bytes != WITH_SCOPE)
		return 0;
	if (packet_load(skb, UDP_HEAD, &magic, sizeof(magic)) || magic != __builtin_bswap32(0x6143574e))
		return 0;
	if (packet_load_from(skb, 0, head, sizeof(head), HEAD_OF_NETWORK))
		return 0;
	int v6 = head[0] >> 4 == 6;
	u8 hops = head[7];

	if (!v6 && packet_load_from(skb, 8, &hops, 1, HEAD_OF_NETWORK))
		return 0;
	if (hops != MOST_HOPS)
		return 0;
	struct heard *h = ring_reserve(&announcements, sizeof(*h), 0);

	if (!h)
		return 0;
	__builtin_memset(h, 0, sizeof(*h));
	h->bytes = bytes;
	h->family = v6 ? INET6 : INET;
	long wrong = v6 ? packet_load_from(skb, 8, h->from, 16, HEAD_OF_NETWORK)
			: packet_load_from(skb, 12, h->from, 4, HEAD_OF_NETWORK);

	wrong |= packet_load_from(skb, 6, h->link, 6, HEAD_OF_LINK);
	wrong |= bytes == PLAIN ? packet_load(skb, UDP_HEAD, h->payload, PLAIN)
				: packet_load(skb, UDP_HEAD, h->payload, WITH_SCOPE);
	if (wrong)
		ring_discard(h, 0);
	else
		ring_submit(h, 0);
	return 0;
}
