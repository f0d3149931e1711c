/* Queue pairs: their life is the agent's, their requests go through shared rings. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "lib.h"

#define MAX_WR 4096

static const uint64_t KNOWN_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

static int check_init(struct mrc_context *mrc, struct mrc_qp_init_attr *init)
{
	if (!mrc || !init || !init->send_cq || !init->recv_cq || !init->pd)
		return EINVAL;
	if (init->send_cq->for_evs || init->recv_cq->for_evs || init->send_cq->mrc->context != mrc->context ||
	    init->recv_cq->mrc->context != mrc->context || context_of(init->pd->context) != mrc->context)
		return EINVAL;
	if (init->send_ops_flags & ~KNOWN_OPS)
		return EOPNOTSUPP;
	if (init->protocol_version != MRC_PROTOCOL_VERSION_0 && init->protocol_version != MRC_PROTOCOL_VERSION_1)
		return EINVAL;
	if (init->cap.max_send_wr > MAX_WR || init->cap.max_recv_wr > MAX_WR || init->cap.max_send_sge > WIRE_MAX_SGE ||
	    init->cap.max_recv_sge > WIRE_MAX_SGE || init->cap.max_inline_data > WIRE_MAX_INLINE)
		return EINVAL;
	return 0;
}

EXPORT struct mrc_qp *mrc_create_qp(struct mrc_context *mrc, struct mrc_qp_init_attr *init)
{
	struct call call = {.op = OP_CREATE_QP, .n = 6};
	struct mrc_qp *qp;
	uint32_t sends, receives;
	int error = check_init(mrc, init);

	if (error || !(qp = calloc(1, sizeof(*qp)))) {
		errno = error ? error : ENOMEM;
		return NULL;
	}
	sends = round_up(init->cap.max_send_wr ? init->cap.max_send_wr : 1);
	receives = round_up(init->cap.max_recv_wr ? init->cap.max_recv_wr : 1);
	qp->size = sizeof(struct wire_qp) + sends * sizeof(struct wire_send) + receives * sizeof(struct wire_recv);
	qp->rings = agent_share(qp->size, &call.fds[0]);
	if (!qp->rings) {
		error = errno;
		free(qp);
		errno = error;
		return NULL;
	}
	call.n_fds = 1;
	call.number[0] = init->pd->handle;
	call.number[1] = init->send_cq->handle;
	call.number[2] = init->recv_cq->handle;
	call.number[3] = sends;
	call.number[4] = receives;
	call.number[5] = init->sq_sig_all != 0;
	error = agent_call(&mrc->context->agent, &call);
	close(call.fds[0]);
	if (error) {
		munmap(qp->rings, qp->size);
		free(qp);
		errno = error;
		return NULL;
	}
	qp->mrc = mrc;
	qp->init = *init;
	qp->number = call.result[0];
	qp->sq_mask = sends - 1;
	qp->rq_mask = receives - 1;
	qp->sends = (struct wire_send *)(qp->rings + 1);
	qp->receives = (struct wire_recv *)(qp->sends + sends);
	pthread_mutex_init(&qp->send_lock, NULL);
	pthread_mutex_init(&qp->receive_lock, NULL);
	atomic_fetch_add(&mrc->users, 1);
	atomic_fetch_add(&init->send_cq->users, 1);
	atomic_fetch_add(&init->recv_cq->users, 1);
	pthread_mutex_lock(&mrc->context->lock);
	qp->next = mrc->context->qps;
	mrc->context->qps = qp;
	qp->same_bucket = mrc->context->by_number[qp->number % QP_BUCKETS];
	mrc->context->by_number[qp->number % QP_BUCKETS] = qp;
	pthread_mutex_unlock(&mrc->context->lock);
	return qp;
}

static void set_hint(struct mrc_qp *qp, struct mrc_qp_hint *hint)
{
	if (hint)
		atomic_fetch_add(&hint->users, 1);
	if (qp->hint)
		atomic_fetch_sub(&qp->hint->users, 1);
	qp->hint = hint;
}

EXPORT int mrc_destroy_qp(struct mrc_qp *qp)
{
	struct call call = {.op = OP_DESTROY_QP, .n = 1};
	struct context *context;
	int error;

	if (!qp)
		return refused(EINVAL);
	context = qp->mrc->context;
	call.number[0] = qp->number;
	error = agent_call(&context->agent, &call);
	if (error && error != EIO)
		return refused(error);
	pthread_mutex_lock(&context->lock);
	while (qp->acked < qp->notified)
		pthread_cond_wait(&context->acked, &context->lock);
	for (struct mrc_qp **at = &context->qps; *at; at = &(*at)->next)
		if (*at == qp) {
			*at = qp->next;
			break;
		}
	for (struct mrc_qp **at = &context->by_number[qp->number % QP_BUCKETS]; *at; at = &(*at)->same_bucket)
		if (*at == qp) {
			*at = qp->same_bucket;
			break;
		}
	pthread_mutex_unlock(&context->lock);
	set_hint(qp, NULL);
	atomic_fetch_sub(&qp->init.send_cq->users, 1);
	atomic_fetch_sub(&qp->init.recv_cq->users, 1);
	atomic_fetch_sub(&qp->mrc->users, 1);
	munmap(qp->rings, qp->size);
	pthread_mutex_destroy(&qp->send_lock);
	pthread_mutex_destroy(&qp->receive_lock);
	free(qp);
	return 0;
}

/* Numbers of OP_MODIFY_QP and of what OP_QUERY_QP answers, in this order. */
enum {
	N_QP, N_VMASK, N_MASK, N_STATE, N_CUR_STATE, N_PATH_MTU, N_ACCESS, N_DEST_QPN, N_RQ_PSN, N_SQ_PSN,
	N_MAX_WIMM, N_MAX_WIMM_DEST, N_MPR, N_MPR_DEST, N_TIMEOUT, N_EV_PROFILE, N_CC_PROFILE, N_LINEAR, N_EXP,
	N_CAP, N_PORT, N_ALL,
};

static const int MRC_MASK = MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_TIMEOUT |
			    MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_HINT | MRC_QP_RETRY_CNT | MRC_QP_CAP |
			    MRC_QP_VENDOR_CFG;

EXPORT int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *v, int vmask, struct mrc_qp_attr *m, int mask)
{
	struct call call = {.op = OP_MODIFY_QP, .n = N_ALL};
	uint64_t *n = call.number;
	int error;

	if (!qp || (vmask && !v) || (mask && !m) || mask & ~MRC_MASK)
		return refused(EINVAL);
	if (mask & MRC_QP_HINT && m->qp_hint && m->qp_hint->mrc->context != qp->mrc->context)
		return refused(EINVAL);
	n[N_QP] = qp->number;
	n[N_VMASK] = (uint32_t)vmask;
	n[N_MASK] = (uint32_t)mask;
	if (v) {
		n[N_STATE] = v->qp_state;
		n[N_CUR_STATE] = v->cur_qp_state;
		n[N_PATH_MTU] = v->path_mtu;
		n[N_ACCESS] = v->qp_access_flags;
		n[N_DEST_QPN] = v->dest_qp_num;
		n[N_RQ_PSN] = v->rq_psn;
		n[N_SQ_PSN] = v->sq_psn;
		if (vmask & IBV_QP_AV) {
			if (!v->ah_attr.is_global)
				return refused(EINVAL);
			call.bytes = &v->ah_attr.grh.dgid;
			call.length = sizeof(v->ah_attr.grh.dgid);
		}
	}
	if (m) {
		n[N_MAX_WIMM] = m->wimm.max_wimm;
		n[N_MAX_WIMM_DEST] = m->wimm.max_wimm_dest;
		n[N_MPR] = m->mpr.mpr;
		n[N_MPR_DEST] = m->mpr.mpr_dest;
		n[N_TIMEOUT] = m->timeout;
		n[N_EV_PROFILE] = m->profile.ev_profile_id;
		n[N_CC_PROFILE] = m->profile.cc_profile_id;
		n[N_LINEAR] = m->retry.linear_cnt;
		n[N_EXP] = m->retry.exp_cnt;
		n[N_CAP] = m->cap;
	}
	error = agent_call(&qp->mrc->context->agent, &call);
	if (error)
		return refused(error);
	if (vmask & IBV_QP_STATE && v->qp_state == IBV_QPS_RESET) {
		qp->sends_over = qp->rings->sq_tail; /* all that was posted is forgotten */
		qp->receives_over = qp->rings->rq_tail;
	}
	if (mask & MRC_QP_HINT)
		set_hint(qp, m->qp_hint);
	if (mask & MRC_QP_VENDOR_CFG)
		memcpy(qp->vendor_cfg, m->vendor_cfg, sizeof(qp->vendor_cfg));
	return 0;
}

EXPORT int mrc_query_qp(struct mrc_qp *qp, struct ibv_qp_attr *v, int vmask, struct mrc_qp_attr *m, int mask,
			struct mrc_qp_init_attr *init)
{
	union ibv_gid gid = {0};
	struct call call = {.op = OP_QUERY_QP, .n = 1, .into = &gid, .room = sizeof(gid)};
	const uint64_t *r = call.result;
	int error;

	if (!qp || (vmask && !v) || (mask && !m) || mask & ~MRC_MASK)
		return refused(EINVAL);
	call.number[0] = qp->number;
	error = agent_call(&qp->mrc->context->agent, &call);
	if (error)
		return refused(error);
	if (v) {
		memset(v, 0, sizeof(*v));
		v->qp_state = v->cur_qp_state = r[N_STATE];
		v->path_mtu = r[N_PATH_MTU];
		v->path_mig_state = IBV_MIG_MIGRATED;
		v->qp_access_flags = r[N_ACCESS];
		v->dest_qp_num = r[N_DEST_QPN];
		v->rq_psn = r[N_RQ_PSN];
		v->sq_psn = r[N_SQ_PSN];
		v->cap = qp->init.cap;
		v->ah_attr.is_global = 1;
		v->ah_attr.grh.dgid = gid;
		v->ah_attr.port_num = v->port_num = 1;
		v->timeout = r[N_TIMEOUT];
	}
	if (m) {
		memset(m, 0, sizeof(*m));
		m->wimm.max_wimm = r[N_MAX_WIMM];
		m->wimm.max_wimm_dest = r[N_MAX_WIMM_DEST];
		m->mpr.mpr = r[N_MPR];
		m->mpr.mpr_dest = r[N_MPR_DEST];
		m->timeout = r[N_TIMEOUT];
		m->profile.ev_profile_id = r[N_EV_PROFILE];
		m->profile.cc_profile_id = r[N_CC_PROFILE];
		m->retry.linear_cnt = r[N_LINEAR];
		m->retry.exp_cnt = r[N_EXP];
		m->cap = r[N_CAP];
		m->qp_hint = qp->hint;
		memcpy(m->vendor_cfg, qp->vendor_cfg, sizeof(m->vendor_cfg));
	}
	if (init)
		*init = qp->init;
	return 0;
}

EXPORT int mrc_get_qpn(struct mrc_qp *qp, uint32_t *number)
{
	if (!qp || !number)
		return failed(EINVAL);
	*number = qp->number;
	return 0;
}

/* --- requests ---------------------------------------------------------------------------------------------------------- */

static int dead(struct mrc_qp *qp)
{
	return atomic_load_explicit(&qp->mrc->context->agent.dead, memory_order_relaxed);
}

/* Fill a slot; an errno where the request cannot be. */
static int fill(struct mrc_qp *qp, struct wire_send *slot, const struct ibv_send_wr *wr)
{
	uint32_t flags = wr->send_flags;

	if (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return EOPNOTSUPP;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge ||
	    flags & ~(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE))
		return EINVAL;
	slot->wr_id = wr->wr_id;
	slot->opcode = wr->opcode;
	slot->remote_addr = wr->wr.rdma.remote_addr;
	slot->rkey = wr->wr.rdma.rkey;
	slot->imm = wr->imm_data;
	slot->num_sge = slot->inline_len = 0;
	slot->flags = qp->init.sq_sig_all ? flags | IBV_SEND_SIGNALED : flags;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (!(flags & IBV_SEND_INLINE)) {
			slot->data.sge[slot->num_sge++] = (struct wire_sge){sge->addr, sge->length, sge->lkey};
			continue;
		}
		if (sge->length > qp->init.cap.max_inline_data - slot->inline_len)
			return EINVAL;
		memcpy(slot->data.inline_data + slot->inline_len, (void *)(uintptr_t)sge->addr, sge->length);
		slot->inline_len += sge->length;
	}
	return 0;
}

EXPORT int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct wire_qp *rings;
	uint32_t tail, posted = 0;
	int error = 0;

	if (!qp)
		return refused(EINVAL);
	rings = qp->rings;
	pthread_mutex_lock(&qp->send_lock);
	tail = rings->sq_tail;
	for (; wr; wr = wr->next) {
		uint32_t state = __atomic_load_n(&rings->state, __ATOMIC_RELAXED);
		uint32_t done = __atomic_load_n(&qp->sends_over, __ATOMIC_RELAXED);

		if (dead(qp))
			error = EIO;
		else if (state != IBV_QPS_RTS && state != IBV_QPS_ERR)
			error = EINVAL;
		else if (tail - done >= qp->init.cap.max_send_wr)
			error = agent_check(&qp->mrc->context->agent) ? EIO : ENOMEM;
		else
			error = fill(qp, &qp->sends[tail & qp->sq_mask], wr);
		if (error) {
			if (bad)
				*bad = wr;
			break;
		}
		tail++;
		posted++;
	}
	__atomic_store_n(&rings->sq_tail, tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->send_lock);
	if (posted)
		agent_ring(&qp->mrc->context->agent);
	return refused(error);
}

EXPORT int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct wire_qp *rings;
	uint32_t tail, posted = 0;
	int error = 0;

	if (!qp)
		return failed(EINVAL);
	rings = qp->rings;
	pthread_mutex_lock(&qp->receive_lock);
	tail = rings->rq_tail;
	for (; wr; wr = wr->next) {
		uint32_t done = __atomic_load_n(&qp->receives_over, __ATOMIC_RELAXED);

		if (dead(qp))
			error = EIO;
		else if (__atomic_load_n(&rings->state, __ATOMIC_RELAXED) == IBV_QPS_RESET || wr->num_sge < 0 ||
			 (uint32_t)wr->num_sge > qp->init.cap.max_recv_sge)
			error = EINVAL;
		else if (tail - done >= qp->init.cap.max_recv_wr)
			error = agent_check(&qp->mrc->context->agent) ? EIO : ENOMEM;
		if (error) {
			if (bad)
				*bad = wr;
			break;
		}
		qp->receives[tail & qp->rq_mask].wr_id = wr->wr_id;
		tail++;
		posted++;
	}
	__atomic_store_n(&rings->rq_tail, tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qp->receive_lock);
	if (posted)
		agent_ring(&qp->mrc->context->agent);
	return failed(error);
}
