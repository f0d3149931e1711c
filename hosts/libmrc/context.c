/* Contexts of the MRC library, versions, device attributes, QP hints, asynchronous events. */
#define _GNU_SOURCE
#include "lib.h"

EXPORT void mrc_query_version(uint32_t *current, uint32_t *last, uint32_t *vendor, uint32_t *last_vendor)
{
	*current = MRC_API_CURRENT_VERSION;
	*last = MRC_API_LAST_SUPPORTED_VERSION;
	*vendor = MRC_VENDOR_API_CURRENT_VERSION;
	*last_vendor = MRC_VENDOR_API_LAST_SUPPORTED_VERSION;
}

EXPORT int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported)
{
	struct call call = {.op = OP_QUERY_DEVICE};
	int error;

	if (!context || !attr || !supported)
		return failed(EINVAL);
	error = agent_call(&context_of(context)->agent, &call);
	if (error)
		return failed(error);
	memset(attr, 0, sizeof(*attr));
	*supported = 1;
	attr->mrc_protocol_version = MRC_PROTOCOL_VERSION_1;
	attr->wimm_attr.max_wimm = attr->wimm_attr.max_wimm_dest = call.result[4];
	attr->mpr_attr.max_mpr = call.result[5];
	attr->mpr_attr.mpr_resolution = 1;
	attr->qp_attr.max_qp_hint = UINT32_MAX;
	attr->cap = call.result[6];
	return 0;
}

EXPORT int mrc_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_device_attr *attr,
			       int *supported)
{
	if (!mrc || mrc->context != context_of(context))
		return failed(EINVAL);
	return mrc_query_device(context, attr, supported);
}

static int version_fits(uint32_t version, uint32_t current)
{
	return version <= current || version == (uint32_t)MRC_API_VER_LATEST;
}

EXPORT struct mrc_context *mrc_create_context(struct ibv_context *context, struct mrc_context_attr *attr)
{
	struct mrc_context *mrc;
	uint32_t version = attr ? attr->mrc_api_version_used : 0;

	if (!context || (attr && (!version_fits(version, MRC_API_CURRENT_VERSION) ||
				  !version_fits(attr->mrc_vendor_api_version_used, MRC_VENDOR_API_CURRENT_VERSION)))) {
		errno = EINVAL;
		return NULL;
	}
	if (agent_check(&context_of(context)->agent)) {
		errno = EIO;
		return NULL;
	}
	mrc = calloc(1, sizeof(*mrc));
	if (!mrc)
		return NULL;
	mrc->context = context_of(context);
	mrc->version = !version || version == (uint32_t)MRC_API_VER_LATEST ? MRC_API_CURRENT_VERSION : version;
	return mrc;
}

EXPORT int mrc_destroy_context(struct mrc_context *mrc)
{
	if (!mrc)
		return failed(EINVAL);
	if (atomic_load(&mrc->users))
		return failed(EBUSY);
	free(mrc);
	return 0;
}

/* --- hints: kept and given back, and of no other effect; the congestion controller knows its peers anyway ---------- */

static const int ALL_HINTS = MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS |
			     MRC_QP_HINT_NUM_REMOTE_RECV_PEERS | MRC_QP_HINT_VENDOR_CFG;

static void copy_hint(struct mrc_qp_hint_attr *to, const struct mrc_qp_hint_attr *from, int mask)
{
	if (mask & MRC_QP_HINT_NUM_QPS_PER_PEER)
		to->num_qps_per_peer = from->num_qps_per_peer;
	if (mask & MRC_QP_HINT_NUM_SEND_PEERS)
		to->num_send_peers = from->num_send_peers;
	if (mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS)
		to->num_remote_recv_peers = from->num_remote_recv_peers;
	if (mask & MRC_QP_HINT_VENDOR_CFG)
		memcpy(to->vendor_cfg, from->vendor_cfg, sizeof(to->vendor_cfg));
}

EXPORT struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc, struct mrc_qp_hint_init_attr *init)
{
	struct mrc_qp_hint *hint;

	if (!mrc || !init) {
		errno = EINVAL;
		return NULL;
	}
	hint = calloc(1, sizeof(*hint));
	if (hint) {
		hint->mrc = mrc;
		hint->attr = init->attr;
		atomic_fetch_add(&mrc->users, 1);
	}
	return hint;
}

EXPORT int mrc_destroy_qp_hint(struct mrc_qp_hint *hint)
{
	if (!hint)
		return failed(EINVAL);
	if (atomic_load(&hint->users))
		return failed(EBUSY);
	atomic_fetch_sub(&hint->mrc->users, 1);
	free(hint);
	return 0;
}

EXPORT int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	if (!hint || !attr || mask & ~ALL_HINTS)
		return failed(EINVAL);
	copy_hint(attr, &hint->attr, mask);
	return 0;
}

EXPORT int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int mask)
{
	if (!hint || !attr || mask & ~ALL_HINTS)
		return failed(EINVAL);
	copy_hint(&hint->attr, attr, mask);
	return 0;
}

/* --- asynchronous events -------------------------------------------------------------------------------------------- */

static int is_of_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR;
}

/* Take the next event of a context; -1 and EIO when the agent is gone. Events of objects gone meanwhile are skipped. */
static int next_event(struct context *context, struct mrc_async_event *event)
{
	struct wire_event notice;

	if (is_parents(context))
		return failed(EIO);
	for (;;) {
		ssize_t got = read(context->agent.events, &notice, sizeof(notice));
		int found = 0;

		if (got < 0)
			return -1;
		if (got < (ssize_t)sizeof(notice)) {
			atomic_store(&context->agent.dead, GONE);
			return failed(EIO);
		}
		event->event_type = notice.type;
		pthread_mutex_lock(&context->lock);
		if (notice.type == IBV_EVENT_CQ_ERR) {
			for (struct mrc_cq *cq = context->cqs; cq && !found; cq = cq->next)
				if (cq->handle == notice.handle && !cq->for_evs) {
					event->element.cq = cq;
					cq->async_notified++;
					found = 1;
				}
		} else if (is_of_qp(notice.type)) {
			for (struct mrc_qp *qp = context->qps; qp && !found; qp = qp->next)
				if (qp->number == notice.handle) {
					event->element.qp = qp;
					qp->notified++;
					found = 1;
				}
		} else {
			event->element.port_num = notice.handle;
			found = 1;
		}
		pthread_mutex_unlock(&context->lock);
		if (found)
			return 0;
	}
}

EXPORT int mrc_get_async_event(struct mrc_context *mrc, struct mrc_async_event *event)
{
	if (!mrc || !event)
		return failed(EINVAL);
	return next_event(mrc->context, event);
}

EXPORT void mrc_ack_async_event(struct mrc_async_event *event)
{
	struct mrc_context *mrc = NULL;
	unsigned *acked = NULL;

	if (event->event_type == IBV_EVENT_CQ_ERR) {
		mrc = event->element.cq->mrc;
		acked = &event->element.cq->async_acked;
	} else if (is_of_qp(event->event_type)) {
		mrc = event->element.qp->mrc;
		acked = &event->element.qp->acked;
	}
	if (!mrc)
		return;
	pthread_mutex_lock(&mrc->context->lock);
	++*acked;
	pthread_cond_broadcast(&mrc->context->acked);
	pthread_mutex_unlock(&mrc->context->lock);
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct mrc_async_event found;

	if (next_event(context_of(context), &found))
		return -1;
	event->event_type = found.event_type;
	event->element.cq = (struct ibv_cq *)found.element.cq; /* opaque to libibverbs, as mrc_ack_async_event wants it */
	if (!is_of_qp(found.event_type) && found.event_type != IBV_EVENT_CQ_ERR)
		event->element.port_num = found.element.port_num;
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct mrc_async_event same = {.event_type = event->event_type};

	same.element.cq = (struct mrc_cq *)event->element.cq;
	mrc_ack_async_event(&same);
}
