/* TCP-AV on CUBIC: a program of its own, since a kernel may lack CUBIC. */
#define ON_CUBIC
#include "tcp_av.bpf.c"
