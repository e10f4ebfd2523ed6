/* TCP-AV as a congestion control of the kernel, and the choice of connections for it by cgroup, port and prefix. */
#include "law.h"

char _license[] SEC("license") = "Dual MIT/GPL";

KFUNC u32 tcp_reno_undo_cwnd(struct sock *sk);

/* The kernel's own control, which the law builds on. */
#ifdef ON_CUBIC
KFUNC void cubictcp_init(struct sock *sk);
KFUNC u32 cubictcp_recalc_ssthresh(struct sock *sk);
KFUNC void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked);
KFUNC void cubictcp_state(struct sock *sk, u8 new_state);
KFUNC void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event);
KFUNC void cubictcp_acked(struct sock *sk, const struct ack_sample *sample);
#define base_init(sk) cubictcp_init(sk)
#define base_ssthresh(sk) cubictcp_recalc_ssthresh(sk)
#define base_cong_avoid(sk, ack, acked) cubictcp_cong_avoid(sk, ack, acked)
#define base_state(sk, to) cubictcp_state(sk, to)
#define base_event(sk, event) cubictcp_cwnd_event(sk, event)
#define base_acked(sk, sample) cubictcp_acked(sk, sample)
#else
KFUNC u32 tcp_reno_ssthresh(struct sock *sk);
KFUNC void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
#define base_init(sk)
#define base_ssthresh(sk) tcp_reno_ssthresh(sk)
#define base_cong_avoid(sk, ack, acked) tcp_reno_cong_avoid(sk, ack, acked)
#define base_state(sk, to)
#define base_event(sk, event)
#define base_acked(sk, sample)
#endif

enum { RULES = 64, INTERFACES = 4096 };

/* Written by the process that registered the control. */
struct settings {
	struct law_params params;
	/* Until then the law acts; later a connection is its base alone. A process that is gone renews nothing. */
	u64 lease_until_ns;
	u64 rules;
	/* Not 0: connections that no rule names are left alone. */
	u64 only_rules;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct settings);
} settings SEC(".maps");

/* Addresses as in IPv6, those of IPv4 mapped; masked. */
struct rule {
	u64 target_bps;
	u32 prefix[4];
	u32 mask[4];
	/* Port of either end. 0: any. */
	u32 port;
	u32 unused;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, RULES);
	TYPE(key, u32);
	TYPE(value, struct rule);
} rules SEC(".maps");

/* How often the path of an interface has changed; at 0 that of all. Then that of its connections of IPv4 alone, and of IPv6. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 3 * INTERFACES);
	TYPE(key, u32);
	TYPE(value, u64);
} paths SEC(".maps");

/* Target of a connection in place of the settings' target. Rules come first, and may change. */
struct wish {
	u64 target_bps;
	/* Number of the rule, from 1. */
	u64 rule;
};

struct {
	UINT(type, MAP_SK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct wish);
} wishes SEC(".maps");

struct flow {
	struct law_params params;
	struct law_state state;
	/* Least round-trip time since the last ACK that the law saw. */
	u64 rtt_ns;
	/* Segments delivered, without wrap. */
	u64 delivered;
	u64 delivered_low;
	/* The window as it was left last. */
	u64 cwnd;
	u64 path;
};

struct {
	UINT(type, MAP_SK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct flow);
} flows SEC(".maps");

/* Names the path: its interface, and how often that one's has changed. `before` while there is no route, as after a timeout. */
INLINE u64 path_of(struct tcp_sock *tp, u64 before)
{
	u32 zero = 0, at = interface_of(tp);
	u64 *all = map_lookup(&paths, &zero);
	u64 changes = all ? *all : 0;

	if (!at)
		return before;
	if (at < INTERFACES) {
		u64 *own = map_lookup(&paths, &at);
		u32 family = at + (is_v6(tp) ? 2 : 1) * INTERFACES;
		u64 *of_family = map_lookup(&paths, &family);

		if (own)
			changes += *own;
		if (of_family)
			changes += *of_family;
	}
	return (u64)at << 32 | (u32)changes;
}

INLINE void read_path(struct tcp_sock *tp, struct law_path *path)
{
	path->now_ns = ktime_ns();
	path->srtt_ns = (u64)tp->srtt_us * 125; /* eighths of a microsecond */
	path->min_rtt_ns = LAW_UNKNOWN;
	path->mss = tp->mss_cache;
	path->cwnd_clamp = tp->snd_cwnd_clamp;
}

/* NULL: the connection is its base alone. */
INLINE struct flow *flow_of(struct tcp_sock *tp)
{
	u32 zero = 0;
	struct settings *set = map_lookup(&settings, &zero);
	struct flow *f = storage(&flows, tp, 0, 0);

	if (!set || !f || ktime_ns() >= set->lease_until_ns)
		return 0;
	return f;
}

INLINE void take_wish(struct tcp_sock *tp, struct flow *f)
{
	u32 zero = 0;
	struct settings *set = map_lookup(&settings, &zero);
	struct wish *wish = storage(&wishes, tp, 0, 0);

	if (set)
		f->params.target_bps = set->params.target_bps;
	if (!wish)
		return;
	if (wish->target_bps)
		f->params.target_bps = wish->target_bps;
	if (wish->rule > 0 && wish->rule <= RULES) {
		u32 at = wish->rule - 1;
		struct rule *rule = map_lookup(&rules, &at);

		if (rule && rule->target_bps)
			f->params.target_bps = rule->target_bps;
	}
}

SEC("struct_ops/init") void init(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 zero = 0;
	struct settings *set = map_lookup(&settings, &zero);
	struct flow *f = storage(&flows, tp, 0, F_CREATE);

	base_init((struct sock *)tp);
	if (!set || !f)
		return;
	f->params = set->params;
	law_new(&f->state);
	f->rtt_ns = LAW_UNKNOWN;
	f->delivered_low = tp->delivered;
	f->delivered = f->delivered_low;
	f->cwnd = tp->snd_cwnd;
	f->path = path_of(tp, 0);
}

SEC("struct_ops/pkts_acked") void pkts_acked(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	const struct ack_sample *sample = (void *)ctx[1];
	struct flow *f = storage(&flows, tp, 0, 0);
	s32 rtt_us = sample->rtt_us;

	base_acked((struct sock *)tp, sample);
	if (!f || rtt_us < 0)
		return;
	u64 rtt_ns = (u64)(u32)rtt_us * 1000;

	if (rtt_ns < f->rtt_ns)
		f->rtt_ns = rtt_ns;
}

SEC("struct_ops/cong_avoid") void cong_avoid(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 number = ctx[1], acked = ctx[2];
	struct flow *f = flow_of(tp);

	if (!f) {
		base_cong_avoid((struct sock *)tp, number, acked);
		return;
	}
	struct law_path path;
	struct law_ack ack;
	struct law_window w;

	read_path(tp, &path);
	take_wish(tp, f);
	u64 now_on = path_of(tp, f->path);

	if (now_on != f->path) {
		/* 0: there was no route yet as the connection began. */
		if (f->path)
			law_on_path_change(&f->params, &f->state);
		f->path = now_on;
	}
	f->delivered += (u32)(tp->delivered - (u32)f->delivered_low);
	f->delivered_low = tp->delivered;
	ack.rtt_ns = f->rtt_ns;
	f->rtt_ns = LAW_UNKNOWN;
	ack.credit = acked;
	ack.delivered = f->delivered;
	ack.cwnd_limited = is_cwnd_limited(tp);
	ack.snd_una = tp->bytes_acked;
	ack.snd_nxt = tp->bytes_acked + (u32)(tp->snd_nxt - tp->snd_una);
	w.cwnd = tp->snd_cwnd;
	w.ssthresh = tp->snd_ssthresh;
	if (law_on_ack(&f->params, &f->state, &w, &path, &ack) == LAW_UNLIMITED) {
		/* The base does nothing with the ACK of a sender that its window does not limit. */
		law_steer(&f->state, &w, &path, &ack);
		tp->snd_cwnd = w.cwnd;
		tp->snd_ssthresh = w.ssthresh;
	} else {
		tp->snd_ssthresh = w.ssthresh;
		base_cong_avoid((struct sock *)tp, number, acked);
	}
	f->cwnd = tp->snd_cwnd;
}

SEC("struct_ops/ssthresh") u32 ssthresh(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 base = base_ssthresh((struct sock *)tp);
	struct flow *f = flow_of(tp);

	if (!f)
		return base;
	struct law_path path;

	read_path(tp, &path);
	f->cwnd = tp->snd_cwnd;
	return law_ssthresh(&f->params, &f->state, tp->snd_cwnd, &path, base);
}

/* New data leaves at once, as far as the window has room. A timeout itself sends one segment, and if that is lost again, the next waits twice
 * as long. Turning TCP_NODELAY on pushes what is queued (tcp_sock_set_nodelay); it is left as it was. */
INLINE void send_new_data(struct tcp_sock *tp)
{
	int was = 0, on = 1, off = 0;

	if (get_option(tp, SOL_TCP, TCP_NODELAY, &was, sizeof(was)))
		return;
	set_option(tp, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!was)
		set_option(tp, SOL_TCP, TCP_NODELAY, &off, sizeof(off));
}

SEC("struct_ops/set_state") void set_state(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u8 to = ctx[1];
	struct flow *f = flow_of(tp);

	base_state((struct sock *)tp, to);
	if (!f)
		return;
	struct law_path path;
	struct law_window w;

	read_path(tp, &path);
	w.cwnd = tp->snd_cwnd;
	w.ssthresh = tp->snd_ssthresh;
	law_on_state(&f->params, &f->state, &w, &path, to == CA_LOSS);
	tp->snd_ssthresh = w.ssthresh;
	if (to == CA_LOSS) {
		/* The kernel has left one segment more than is in flight. A timeout leaves the floor, and never raises the window. */
		u64 kept = law_loss_window(&f->params, &f->state, &path);

		if (kept > f->cwnd)
			kept = f->cwnd;
		if (kept > tp->snd_cwnd)
			tp->snd_cwnd = kept;
		f->cwnd = tp->snd_cwnd;
		if (f->params.after_timeout == LAW_NEW_DATA)
			send_new_data(tp);
	}
}

SEC("struct_ops/cwnd_event") void cwnd_event(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 event = ctx[1];
	struct flow *f = event == TX_START ? flow_of(tp) : 0;

	base_event((struct sock *)tp, event);
	if (f)
		law_on_restart(&f->state);
}

SEC("struct_ops/undo_cwnd") u32 undo_cwnd(u64 *ctx)
{
	return tcp_reno_undo_cwnd((struct sock *)ctx[0]);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops airtcp_av = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.set_state = (void *)set_state,
	.cwnd_event = (void *)cwnd_event,
	.pkts_acked = (void *)pkts_acked,
	.undo_cwnd = (void *)undo_cwnd,
	.init = (void *)init,
	.flags = NON_RESTRICTED,
	.name = "airtcp_av",
};

INLINE u32 net32(u32 value)
{
	return __builtin_bswap32(value);
}

/* Connections of a cgroup, as they begin. */
SEC("sockops") int choose(struct bpf_sock_ops *ctx)
{
	u32 op = ctx->op, family = ctx->family, zero = 0, near = ctx->local_port, far = net32(ctx->remote_port);
	/* Read at once: the verifier takes no address that depends on the family. */
	u32 far4 = *(volatile u32 *)&ctx->remote_ip4;
	u32 far6[4] = {
		*(volatile u32 *)&ctx->remote_ip6[0],
		*(volatile u32 *)&ctx->remote_ip6[1],
		*(volatile u32 *)&ctx->remote_ip6[2],
		*(volatile u32 *)&ctx->remote_ip6[3],
	};
	u32 address[4];

	if (op != OP_CONNECT && op != OP_ACCEPTED)
		return 1;
	if (family == INET) {
		address[0] = 0;
		address[1] = 0;
		address[2] = net32(0xffff);
		address[3] = far4;
	} else if (family == INET6) {
		address[0] = far6[0];
		address[1] = far6[1];
		address[2] = far6[2];
		address[3] = far6[3];
	} else {
		return 1;
	}
	struct settings *set = map_lookup(&settings, &zero);
	struct wish wish = {};

	if (!set || ktime_ns() >= set->lease_until_ns)
		return 1;
	for (u32 i = 0; i < RULES; i++) {
		u32 at = i;
		struct rule *rule = map_lookup(&rules, &at);

		if (!rule || i >= set->rules)
			break;
		if (rule->port && rule->port != near && rule->port != far)
			continue;
		if (((address[0] ^ rule->prefix[0]) & rule->mask[0]) | ((address[1] ^ rule->prefix[1]) & rule->mask[1]) |
		    ((address[2] ^ rule->prefix[2]) & rule->mask[2]) | ((address[3] ^ rule->prefix[3]) & rule->mask[3]))
			continue;
		wish.rule = i + 1;
		break;
	}
	if (!wish.rule && set->only_rules)
		return 1;
	struct bpf_sock *sk = ctx->sk;

	if (!sk)
		return 1;
	char name[] = "airtcp_av";

	if (storage(&wishes, sk, &wish, F_CREATE))
		set_option(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}
