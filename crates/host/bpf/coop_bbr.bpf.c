/* BBR with a lease, for the cooperative daemon. An object of its own, since not every kernel has BBR, or has it this way (6.10). */
#include "lease.h"

char _license[] SEC("license") = "Dual MIT/GPL";

KFUNC void bbr_init(struct sock *sk);
KFUNC void bbr_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
KFUNC u32 bbr_sndbuf_expand(struct sock *sk);
KFUNC u32 bbr_undo_cwnd(struct sock *sk);
KFUNC void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event);
KFUNC u32 bbr_ssthresh(struct sock *sk);
KFUNC u32 bbr_min_tso_segs(struct sock *sk);
KFUNC void bbr_set_state(struct sock *sk, u8 new_state);

SEC("struct_ops/init") void init(u64 *ctx)
{
	bbr_init((struct sock *)ctx[0]);
}

/* BBR goes on with what it sees; only the window is held. */
SEC("struct_ops/control") void control(u64 *ctx)
{
	struct tcp_sock *tp = (void *)ctx[0];
	u32 ack = ctx[1];
	int flag = ctx[2];
	const struct rate_sample *rs = (void *)ctx[3];

	bbr_main((struct sock *)tp, ack, flag, rs);
	is_held(tp);
}

SEC("struct_ops/expand") u32 expand(u64 *ctx)
{
	return bbr_sndbuf_expand((struct sock *)ctx[0]);
}

SEC("struct_ops/undo") u32 undo(u64 *ctx)
{
	return bbr_undo_cwnd((struct sock *)ctx[0]);
}

SEC("struct_ops/event") void event(u64 *ctx)
{
	u32 what = ctx[1];

	bbr_cwnd_event((struct sock *)ctx[0], what);
}

SEC("struct_ops/ssthresh") u32 ssthresh(u64 *ctx)
{
	return bbr_ssthresh((struct sock *)ctx[0]);
}

SEC("struct_ops/least") u32 least(u64 *ctx)
{
	return bbr_min_tso_segs((struct sock *)ctx[0]);
}

SEC("struct_ops/state") void state(u64 *ctx)
{
	u8 to = ctx[1];

	bbr_set_state((struct sock *)ctx[0], to);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops airtcp_bbr = {
	.init = (void *)init,
	.cong_control = (void *)control,
	.sndbuf_expand = (void *)expand,
	.undo_cwnd = (void *)undo,
	.cwnd_event = (void *)event,
	.ssthresh = (void *)ssthresh,
	.min_tso_segs = (void *)least,
	.set_state = (void *)state,
	.name = "airtcp_bbr",
};
