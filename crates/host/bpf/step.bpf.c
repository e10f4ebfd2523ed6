/* One step of the law by BPF_PROG_RUN, for the test that compares it with the native code. */
#include "law.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct step {
	struct law_params params;
	struct law_state state;
	struct law_window window;
	struct law_path path;
	struct law_ack ack;
	struct law_lease lease;
	u64 operation, argument, result;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct step);
} steps SEC(".maps");

SEC("syscall") int run(void *ctx)
{
	u32 zero = 0;
	struct step *s = map_lookup(&steps, &zero);

	if (!s)
		return 1;
	switch (s->operation) {
	case 0:
		s->result = law_on_ack(&s->params, &s->state, &s->window, &s->path, &s->ack);
		if (s->result == LAW_UNLIMITED)
			law_steer(&s->state, &s->window, &s->path, &s->ack);
		break;
	case 1:
		s->result = law_ssthresh(&s->params, &s->state, s->window.cwnd, &s->path, s->argument);
		break;
	case 2:
		law_on_state(&s->params, &s->state, &s->window, &s->path, s->argument);
		s->result = law_loss_window(&s->params, &s->state, &s->path);
		break;
	case 3:
		law_on_restart(&s->state);
		break;
	case 4:
		law_on_path_change(&s->params, &s->state);
		break;
	case 5:
		s->result = law_held(&s->lease, s->path.now_ns, s->window.cwnd);
		break;
	default:
		law_new(&s->state);
	}
	return 0;
}
