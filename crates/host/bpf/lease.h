/* Leases of connections: caps that end by themselves. The objects of the cooperative daemon share this map. */
#pragma once
#include "law.h"

struct {
	UINT(type, MAP_SK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct law_lease);
} leases SEC(".maps");

/* The window is at its cap: nothing may make it grow, and what it learnt before stays as it is. */
INLINE int is_held(struct tcp_sock *tp)
{
	struct law_lease *lease = storage(&leases, tp, 0, 0);

	if (!lease)
		return 0;
	u64 kept = law_held(lease, ktime_ns(), (u64)tp->snd_cwnd + 1);

	if (kept > tp->snd_cwnd)
		return 0;
	tp->snd_cwnd = kept;
	return 1;
}
