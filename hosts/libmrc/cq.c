/* Completion channels and completion queues. A queue is a ring that the agent fills and the program empties. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "lib.h"

#define IDLE_POLLS 64   /* empty polls in a row before each further one rests: the links here are slow, a CPU is dear */
#define CHECK_POLLS 256 /* and before one looks whether the agent still lives */

EXPORT int mrc_create_comp_channel(struct mrc_context *mrc, struct mrc_comp_channel **out)
{
	struct call call = {.op = OP_CREATE_CHANNEL};
	struct mrc_comp_channel *channel;
	int ends[2], error;

	if (!mrc || !out)
		return refused(EINVAL);
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return refused(ENOMEM);
	if (pipe2(ends, O_CLOEXEC)) { /* a program that this one starts would keep the agent's end open */
		error = errno;
		free(channel);
		return refused(error);
	}
	call.fds[0] = ends[1];
	call.n_fds = 1;
	error = agent_call(&mrc->context->agent, &call);
	close(ends[1]); /* only the agent holds it, so that its end is seen */
	if (error) {
		close(ends[0]);
		free(channel);
		return refused(error);
	}
	channel->mrc = mrc;
	channel->fd = ends[0];
	channel->handle = call.result[0];
	atomic_fetch_add(&mrc->users, 1);
	*out = channel;
	return 0;
}

EXPORT int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd)
{
	if (!channel || !fd)
		return failed(EINVAL);
	*fd = channel->fd;
	return 0;
}

EXPORT int mrc_destroy_comp_channel(struct mrc_comp_channel *channel)
{
	struct call call = {.op = OP_DESTROY_CHANNEL, .n = 1};
	int error;

	if (!channel)
		return refused(EINVAL);
	if (atomic_load(&channel->users))
		return refused(EBUSY);
	call.number[0] = channel->handle;
	error = agent_call(&channel->mrc->context->agent, &call);
	if (error && error != EIO)
		return refused(error);
	close(channel->fd);
	atomic_fetch_sub(&channel->mrc->users, 1);
	free(channel);
	return 0;
}

static struct mrc_cq *enlist(struct mrc_cq *cq, struct mrc_context *mrc, struct mrc_comp_channel *channel, void *user)
{
	cq->mrc = mrc;
	cq->channel = channel;
	cq->user = user;
	pthread_mutex_init(&cq->lock, NULL);
	atomic_fetch_add(&mrc->users, 1);
	if (channel)
		atomic_fetch_add(&channel->users, 1);
	pthread_mutex_lock(&mrc->context->lock);
	cq->next = mrc->context->cqs;
	mrc->context->cqs = cq;
	pthread_mutex_unlock(&mrc->context->lock);
	return cq;
}

/* A queue without its ring, or NULL and errno. */
static struct mrc_cq *allocate(struct mrc_context *mrc, int cqe, struct mrc_comp_channel *channel, int vector)
{
	if (!mrc || cqe < 1 || cqe > 1 << 20 || vector || (channel && channel->mrc->context != mrc->context)) {
		errno = EINVAL;
		return NULL;
	}
	return calloc(1, sizeof(struct mrc_cq));
}

static struct mrc_cq *discard(struct mrc_cq *cq, int error)
{
	if (cq->ring)
		munmap(cq->ring, cq->size);
	free(cq);
	errno = error;
	return NULL;
}

EXPORT struct mrc_cq *mrc_create_cq(struct mrc_context *mrc, int cqe, void *user, struct mrc_comp_channel *channel,
				    int vector)
{
	struct call call = {.op = OP_CREATE_CQ, .n = 2};
	struct mrc_cq *cq = allocate(mrc, cqe, channel, vector);
	uint32_t entries;
	int error;

	if (!cq)
		return NULL;
	entries = round_up(cqe);
	cq->size = sizeof(struct wire_cq) + entries * sizeof(struct wire_cqe);
	cq->ring = agent_share(cq->size, &call.fds[0]);
	if (!cq->ring)
		return discard(cq, errno);
	call.n_fds = 1;
	call.number[0] = entries;
	call.number[1] = channel ? channel->handle : 0;
	error = agent_call(&mrc->context->agent, &call);
	close(call.fds[0]);
	if (error)
		return discard(cq, error);
	cq->handle = call.result[0];
	cq->entries = (struct wire_cqe *)(cq->ring + 1);
	cq->mask = entries - 1;
	return enlist(cq, mrc, channel, user);
}

EXPORT struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *mrc, int cqe, void *user,
						 struct mrc_comp_channel *channel, int vector)
{
	struct call call = {.op = OP_CTL_CREATE_EV_CQ, .n = 2};
	struct mrc_cq *cq = allocate(mrc, cqe, channel, vector);
	int error;

	if (!cq)
		return NULL;
	call.number[0] = cqe;
	call.number[1] = channel ? channel->handle : 0;
	error = agent_call(&mrc->context->agent, &call);
	if (error)
		return discard(cq, error);
	cq->handle = call.result[0];
	cq->for_evs = 1;
	return enlist(cq, mrc, channel, user);
}

static void to_wc(const struct wire_cqe *entry, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = entry->wr_id;
	wc->status = entry->status;
	wc->opcode = entry->opcode;
	wc->vendor_err = entry->vendor_err;
	wc->byte_len = entry->byte_len;
	wc->imm_data = entry->imm;
	wc->qp_num = entry->qp_num;
	wc->wc_flags = entry->flags;
}

/* A completion that is polled frees the places of its request, and of unsignalled ones before it. */
static void free_places(struct context *context, const struct wire_cqe *entry)
{
	struct mrc_qp *qp;

	pthread_mutex_lock(&context->lock);
	for (qp = context->by_number[entry->qp_num % QP_BUCKETS]; qp; qp = qp->same_bucket)
		if (qp->number == entry->qp_num) {
			uint32_t *over = entry->opcode & IBV_WC_RECV ? &qp->receives_over : &qp->sends_over;

			/* a completion of before a reset says less than the reset, which freed all */
			if ((int32_t)(entry->over - *over) > 0)
				__atomic_store_n(over, entry->over, __ATOMIC_RELAXED);
		}
	pthread_mutex_unlock(&context->lock);
}

EXPORT int mrc_poll_cq(struct mrc_cq *cq, int num_entries, struct ibv_wc *wc)
{
	uint32_t head, ready, idle;
	int n;

	if (!cq || cq->for_evs || num_entries < 0 || (num_entries && !wc))
		return failed(EINVAL);
	if (is_parents(cq->mrc->context))
		return failed(EIO);
	pthread_mutex_lock(&cq->lock);
	head = cq->ring->head;
	ready = __atomic_load_n(&cq->ring->tail, __ATOMIC_ACQUIRE) - head;
	for (n = 0; n < num_entries && (uint32_t)n < ready; n++) {
		const struct wire_cqe entry = cq->entries[(head + n) & cq->mask];

		/* the entry's place is free before its request's: what is posted at once finds room for its completion */
		__atomic_store_n(&cq->ring->head, head + n + 1, __ATOMIC_RELEASE);
		to_wc(&entry, &wc[n]);
		free_places(cq->mrc->context, &entry);
	}
	if (n) {
		cq->idle = 0;
		pthread_mutex_unlock(&cq->lock);
		return n;
	}
	idle = ++cq->idle;
	pthread_mutex_unlock(&cq->lock);
	if (idle < IDLE_POLLS) {
		PAUSE();
		return 0;
	}
	if (atomic_load_explicit(&cq->mrc->context->agent.dead, memory_order_relaxed))
		return failed(EIO);
	if (cq->ring->overflow)
		return failed(EOVERFLOW);
	if (idle % CHECK_POLLS == 0 && agent_check(&cq->mrc->context->agent))
		return failed(EIO);
	agent_rest();
	return 0;
}

EXPORT int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only)
{
	struct call call = {.op = OP_CTL_ARM_EV_CQ, .n = 1};

	if (!cq || !cq->channel)
		return refused(EINVAL);
	if (cq->for_evs) {
		call.number[0] = cq->handle;
		return refused(agent_call(&cq->mrc->context->agent, &call));
	}
	if (agent_check(&cq->mrc->context->agent))
		return refused(EIO);
	__atomic_store_n(&cq->ring->armed, solicited_only ? 2 : 1, __ATOMIC_SEQ_CST);
	return 0;
}

EXPORT int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **out, void **user)
{
	if (!channel || !out || !user)
		return failed(EINVAL);
	if (is_parents(channel->mrc->context))
		return failed(EIO);
	for (;;) {
		struct context *context = channel->mrc->context;
		struct mrc_cq *cq;
		uint64_t handle;
		ssize_t got = read(channel->fd, &handle, sizeof(handle));

		if (got < 0)
			return -1;
		if (got < (ssize_t)sizeof(handle)) {
			atomic_store(&context->agent.dead, GONE);
			return failed(EIO);
		}
		pthread_mutex_lock(&context->lock);
		for (cq = context->cqs; cq && cq->handle != handle; cq = cq->next)
			;
		if (cq) {
			cq->notified++;
			*out = cq;
			*user = cq->user;
		}
		pthread_mutex_unlock(&context->lock);
		if (cq)
			return 0;
	}
}

EXPORT void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mrc->context->lock);
	cq->acked += n;
	pthread_cond_broadcast(&cq->mrc->context->acked);
	pthread_mutex_unlock(&cq->mrc->context->lock);
}

EXPORT int mrc_destroy_cq(struct mrc_cq *cq)
{
	struct call call = {.n = 1};
	struct context *context;
	int error;

	if (!cq)
		return refused(EINVAL);
	if (atomic_load(&cq->users))
		return refused(EBUSY);
	context = cq->mrc->context;
	call.op = cq->for_evs ? OP_CTL_DESTROY_EV_CQ : OP_DESTROY_CQ;
	call.number[0] = cq->handle;
	error = agent_call(&context->agent, &call);
	if (error && error != EIO)
		return refused(error);
	pthread_mutex_lock(&context->lock);
	while (cq->acked < cq->notified || cq->async_acked < cq->async_notified)
		pthread_cond_wait(&context->acked, &context->lock);
	for (struct mrc_cq **at = &context->cqs; *at; at = &(*at)->next)
		if (*at == cq) {
			*at = cq->next;
			break;
		}
	pthread_mutex_unlock(&context->lock);
	if (cq->channel)
		atomic_fetch_sub(&cq->channel->users, 1);
	atomic_fetch_sub(&cq->mrc->users, 1);
	if (cq->ring)
		munmap(cq->ring, cq->size);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	return 0;
}
