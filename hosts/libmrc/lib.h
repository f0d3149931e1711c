/* Inside lib_mrc.so: objects, and the calls between its files. */
#ifndef MRCLAB_LIB_H
#define MRCLAB_LIB_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mrc.h>
#include <mrc_ctl.h>

#include "wire.h"

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif

/* A connection to the agent. `dead` is set for good: GONE when it is, FORKED in a child that fork made. */
enum { ALIVE, GONE, FORKED };

struct agent {
	pthread_mutex_t lock;
	int socket, doorbell, events;
	atomic_int dead;
	struct wire_page *page;
	struct agent *next; /* all of this process, for fork */
};

struct device {
	struct ibv_device ibv; /* must stay first */
	char path[108];
	uint64_t guid;
};

#define QP_BUCKETS 1024

struct context {
	struct ibv_context ibv; /* must stay first */
	struct agent agent;
	uint32_t ports, path_mtu;
	pthread_mutex_t lock; /* of the lists */
	pthread_cond_t acked;
	struct mrc_cq *cqs;
	struct mrc_qp *qps;
	struct mrc_qp *by_number[QP_BUCKETS]; /* by number; under the lock where it changes */
};

struct mrc_context {
	struct context *context;
	uint32_t version; /* of the API that the program uses */
	atomic_int users;
};

struct mrc_comp_channel {
	struct mrc_context *mrc;
	uint32_t handle;
	int fd;
	atomic_int users;
};

struct mrc_cq {
	struct mrc_context *mrc;
	struct mrc_comp_channel *channel;
	void *user;
	uint32_t handle, mask, idle;
	int for_evs, armed_for_evs;
	struct wire_cq *ring; /* NULL for EV events */
	struct wire_cqe *entries;
	size_t size;
	pthread_mutex_t lock;
	atomic_int users;
	unsigned notified, acked, async_notified, async_acked; /* events, under the context's lock */
	struct mrc_cq *next;
};

struct mrc_qp {
	struct mrc_context *mrc;
	struct mrc_qp_init_attr init;
	struct mrc_qp_hint *hint;
	uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
	uint32_t number, sq_mask, rq_mask;
	struct wire_qp *rings;
	struct wire_send *sends;
	struct wire_recv *receives;
	size_t size;
	pthread_mutex_t send_lock, receive_lock;
	uint32_t sends_over, receives_over; /* as the completions say that the program has polled */
	unsigned notified, acked; /* asynchronous events, under the context's lock */
	struct mrc_qp *next, *same_bucket;
};

struct mrc_qp_hint {
	struct mrc_context *mrc;
	struct mrc_qp_hint_attr attr;
	atomic_int users;
};

/* One call to the agent. Zero the whole thing, fill in what goes, read what came. */
struct call {
	uint32_t op;
	uint32_t n; /* numbers given */
	uint64_t number[WIRE_MAX_NUMBERS];
	const void *bytes;
	size_t length;
	int fds[4];
	int n_fds;
	uint32_t results;
	uint64_t result[WIRE_MAX_NUMBERS];
	void *into; /* room for bytes of the answer */
	size_t room, got;
};

int agent_connect(struct agent *agent, const char *path);
void agent_close(struct agent *agent);
/* 0, or an errno: EIO where there is no agent any more. */
int agent_call(struct agent *agent, struct call *call);
/* Look whether the agent still lives; EIO where not. */
int agent_check(struct agent *agent);
void agent_ring(struct agent *agent);
/* Shared memory of `size` bytes; a descriptor of it in *fd. NULL and errno where there is none. */
void *agent_share(size_t size, int *fd);
int agent_hello(struct agent *agent, struct call *call);
/* A wait of some microseconds for a program that polls in a loop. */
void agent_rest(void);

static inline struct context *context_of(struct ibv_context *context)
{
	return (struct context *)context;
}

/* Whether these are a parent's objects, of which a child may take nothing. */
static inline int is_parents(struct context *context)
{
	return atomic_load_explicit(&context->agent.dead, memory_order_relaxed) == FORKED;
}

static inline int failed(int error) /* -1 and errno, for calls that answer so */
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static inline int refused(int error) /* the error itself, for calls like those of libibverbs; errno as well */
{
	if (error)
		errno = error;
	return error;
}

static inline uint32_t round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size <<= 1;
	return size;
}

#endif
