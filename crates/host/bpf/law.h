/* crates/law as C sees it. The step test holds both to the same layout. */
#pragma once
#include "kernel.h"

#define LAW_UNKNOWN (~0ULL)

struct law_params {
	u64 target_bps, rtt_min, rtt_min_window_ns, floor_rtt, after_timeout, above, rise, fall, tune_rounds, tune_limit,
		severe_rounds, severe_reductions, severe_share, reduced_to, target_min, recover_step;
};

struct law_count {
	u64 is_on, start_ns, delivered, end, limited, slow_start;
};

struct law_state {
	u64 share, least_since_ns, least_ns, least_before_ns, is_reduced;
	struct law_count round, period;
	u64 rounds, reductions, behind, ahead, has_aim, low, high, step, moved;
};

struct law_window {
	u64 cwnd, ssthresh;
};

struct law_path {
	u64 now_ns, srtt_ns, min_rtt_ns, mss, cwnd_clamp;
};

struct law_ack {
	u64 rtt_ns, credit, delivered, cwnd_limited, snd_una, snd_nxt;
};

struct law_lease {
	u64 cap, until_ns;
};

enum { LAW_BASE = 0, LAW_UNLIMITED = 1 };

/* Value of after_timeout. */
enum { LAW_NEW_DATA = 2 };

void law_new(struct law_state *s);
u64 law_on_ack(const struct law_params *p, struct law_state *s, struct law_window *w, const struct law_path *path,
	       const struct law_ack *ack);
void law_steer(struct law_state *s, struct law_window *w, const struct law_path *path, const struct law_ack *ack);
u64 law_ssthresh(const struct law_params *p, struct law_state *s, u64 cwnd, const struct law_path *path, u64 base);
void law_on_state(const struct law_params *p, struct law_state *s, struct law_window *w, const struct law_path *path,
		  u64 is_loss);
u64 law_loss_window(const struct law_params *p, const struct law_state *s, const struct law_path *path);
void law_on_restart(struct law_state *s);
void law_on_path_change(const struct law_params *p, struct law_state *s);
u64 law_held(const struct law_lease *lease, u64 now_ns, u64 cwnd);
