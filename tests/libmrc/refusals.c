/* refusals ROLE OUT IN: wrong versions, sizes, states, masks and keys get the published errors; a bad key ends the QP. */
#include "common.h"

#include <sys/mman.h>

static int modify(struct end *end, enum ibv_qp_state state, int vmask, struct mrc_qp_attr *m, int mask)
{
	struct ibv_qp_attr v = {.qp_state = state, .path_mtu = IBV_MTU_1024, .ah_attr = {.is_global = 1}};

	v.ah_attr.grh.dgid = end->peer.gid;
	return mrc_modify_qp(end->qp, &v, vmask, m, mask);
}

static void objects(struct end *end)
{
	struct mrc_context_attr future = {.mrc_api_version_used = MRC_API_VER(1, 1, 0)}, vendor = {0, MRC_API_VER(2, 0, 0)};
	struct mrc_qp_init_attr init = {.send_cq = end->send, .recv_cq = end->recv, .pd = end->pd};
	struct mrc_qp_hint_init_attr hint_init = {.attr = {.num_send_peers = 5}};
	struct mrc_qp_hint_attr hint_attr;
	struct mrc_qp_hint *hint;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct mrc_device_attr attr;
	uint32_t a, b, c, d;
	int supported = 0, descriptor;
	char *readonly = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(!mrc_get_comp_channel_fd(end->channel, &descriptor) && fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
	REFUSED(EINVAL, !mrc_create_context(end->context, &future));
	REFUSED(EINVAL, !mrc_create_context(end->context, &vendor));
	REFUSED(EINVAL, !mrc_create_context(NULL, NULL));
	mrc_query_version(&a, &b, &c, &d);
	CHECK(a == MRC_API_CURRENT_VERSION && b == 0 && c == MRC_VENDOR_API_CURRENT_VERSION && d == 0);
	mrc_ctl_query_version(&a, &b, &c, &d);
	CHECK(a == MRC_CTL_API_CURRENT_VERSION);
	CHECK(!mrc_query_device_ex(end->context, end->mrc, &attr, &supported) && supported);
	CHECK(attr.mrc_protocol_version == MRC_PROTOCOL_VERSION_1 && attr.mpr_attr.max_mpr == 255 && attr.cap == 7);
	REFUSED(EINVAL, mrc_query_device_ex(end->context, NULL, &attr, &supported) == -1);
	CHECK(!ibv_query_device(end->context, &device) && device.phys_port_cnt == 4);
	CHECK(!ibv_query_port(end->context, 4, &port) && port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_1024);
	REFUSED(EINVAL, ibv_query_port(end->context, 5, &port) == EINVAL);
	REFUSED(EINVAL, ibv_query_gid(end->context, 1, 4, &gid) == -1);
	REFUSED(EINVAL, !mrc_create_cq(end->mrc, 0, NULL, NULL, 0));
	REFUSED(EINVAL, !mrc_create_cq(end->mrc, 16, NULL, NULL, 1));
	init.cap.max_send_wr = 5000;
	REFUSED(EINVAL, !mrc_create_qp(end->mrc, &init));
	init.cap.max_send_wr = 1;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	REFUSED(EOPNOTSUPP, !mrc_create_qp(end->mrc, &init));
	init.send_ops_flags = 0;
	init.protocol_version = 2;
	REFUSED(EINVAL, !mrc_create_qp(end->mrc, &init));
	REFUSED(EINVAL, !ibv_reg_mr(end->pd, end->buffer, 10, IBV_ACCESS_REMOTE_WRITE));
	REFUSED(EOPNOTSUPP, !ibv_reg_mr(end->pd, end->buffer, 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	REFUSED(EFAULT, !ibv_reg_mr(end->pd, readonly, 8192, IBV_ACCESS_LOCAL_WRITE));
	REFUSED(EFAULT, !ibv_reg_mr(end->pd, (void *)4096, 8192, 0));
	REFUSED(EBUSY, ibv_dealloc_pd(end->pd) == EBUSY);
	REFUSED(EBUSY, mrc_destroy_cq(end->send) == EBUSY);
	REFUSED(EBUSY, mrc_destroy_comp_channel(end->channel) == EBUSY);
	REFUSED(EBUSY, mrc_destroy_context(end->mrc) == -1);
	REFUSED(EOPNOTSUPP, !ibv_create_cq(end->context, 1, NULL, NULL, 0));
	hint = mrc_create_qp_hint(end->mrc, &hint_init);
	CHECK(hint && !mrc_query_qp_hint(hint, &hint_attr, MRC_QP_HINT_NUM_SEND_PEERS) && hint_attr.num_send_peers == 5);
	REFUSED(EINVAL, mrc_query_qp_hint(hint, &hint_attr, 1 << 5) == -1);
	struct ibv_qp_attr v = {.qp_state = IBV_QPS_INIT};
	struct mrc_qp_attr m = {.qp_hint = hint};
	CHECK(!mrc_modify_qp(end->qp, &v, IBV_QP_STATE, &m, MRC_QP_HINT));
	REFUSED(EBUSY, mrc_destroy_qp_hint(hint) == -1);
	m.qp_hint = NULL;
	CHECK(!mrc_modify_qp(end->qp, &v, IBV_QP_STATE, &m, MRC_QP_HINT)); /* INIT to INIT */
	CHECK(!mrc_destroy_qp_hint(hint));
}

static void states(struct end *end)
{
	static const int TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct mrc_qp_attr m = {.mpr = {.mpr = 2, .mpr_dest = 3}, .wimm = {4, 5}, .timeout = 25, .retry = {7, 26}};
	struct ibv_qp_attr v;
	struct mrc_qp_init_attr init;
	struct ibv_recv_wr wr = {.num_sge = 2}, *bad;

	CHECK(!modify(end, IBV_QPS_RESET, IBV_QP_STATE, NULL, 0));
	REFUSED(EINVAL, mrc_post_recv(end->qp, &wr, &bad) == -1);
	REFUSED(EINVAL, post(end, 0, 1, 1, 0, 0, 0) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, NULL, 0) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_SQD, IBV_QP_STATE, NULL, 0) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_INIT, IBV_QP_STATE, &m, MRC_QP_TIMEOUT) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_QKEY, NULL, 0) == EINVAL);
	m.profile.ev_profile_id = 7;
	REFUSED(EINVAL, modify(end, IBV_QPS_INIT, IBV_QP_STATE, &m, MRC_QP_EV_PROFILE_ID) == EINVAL); /* not ONLINE */
	CHECK(!modify(end, IBV_QPS_INIT, IBV_QP_STATE, NULL, 0));
	REFUSED(EINVAL, mrc_post_recv(end->qp, &wr, &bad) == -1); /* two entries, but the queue has one */
	for (int drop = 0; drop < 4; drop++) {
		static const int needed[] = {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN};

		REFUSED(EINVAL, modify(end, IBV_QPS_RTR, TO_RTR & ~needed[drop], NULL, 0) == EINVAL);
	}
	m.mpr.mpr_dest = 0;
	REFUSED(EINVAL, modify(end, IBV_QPS_RTR, TO_RTR, &m, MRC_QP_MPR_DEST) == EINVAL);
	m.mpr.mpr_dest = 3;
	CHECK(!modify(end, IBV_QPS_RTR, TO_RTR, &m, MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM_DEST));
	REFUSED(EINVAL, modify(end, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_CUR_STATE, NULL, 0) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, &m, MRC_QP_TIMEOUT) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, &m, MRC_QP_RETRY_CNT) == EINVAL);
	REFUSED(EINVAL, modify(end, IBV_QPS_RTS, IBV_QP_STATE, NULL, 0) == EINVAL);
	m.timeout = 14;
	m.retry.exp_cnt = 2;
	CHECK(!modify(end, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, &m,
		      MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT | MRC_QP_MPR | MRC_QP_MAX_WIMM));
	memset(&m, 0, sizeof(m));
	CHECK(!mrc_query_qp(end->qp, &v, IBV_QP_STATE, &m, MRC_QP_MPR | MRC_QP_TIMEOUT, &init));
	CHECK(v.qp_state == IBV_QPS_RTS && m.mpr.mpr == 2 && m.mpr.mpr_dest == 3 && m.wimm.max_wimm == 4);
	CHECK(m.wimm.max_wimm_dest == 5 && m.timeout == 14 && m.retry.linear_cnt == 7 && m.retry.exp_cnt == 2);
	CHECK(init.send_cq == end->send && !memcmp(&v.ah_attr.grh.dgid, &end->peer.gid, 16));
	CHECK(!modify(end, IBV_QPS_ERR, IBV_QP_STATE, NULL, 0));
	CHECK(!post(end, 0, 100, 44, 0, 0, 0)); /* flushed, as in hardware */
	CHECK(wait_wc(end->send).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!modify(end, IBV_QPS_RESET, IBV_QP_STATE, NULL, 0));
}

static void sender(struct end *end)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_async_event event;
	struct ibv_wc wc;
	int posted = 0;

	objects(end);
	to_init(end);
	meet(end, "a", "b");
	states(end);
	to_init(end);
	to_rtr(end, NULL, 0);
	to_rts(end, NULL, 0);
	REFUSED(EOPNOTSUPP, mrc_post_send(end->qp, &wr, &bad) == EOPNOTSUPP && bad == &wr);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.num_sge = 5;
	REFUSED(EINVAL, mrc_post_send(end->qp, &wr, &bad) == EINVAL);
	errno = 0;
	while (!post(end, 0, end->size, posted, IBV_SEND_SIGNALED, 0, 0))
		posted++;
	CHECK(posted >= 16 && posted < 40); /* the ring's 16, and those done meanwhile; then ENOMEM */
	for (int i = 0; i < posted; i++) {
		wc = wait_wc(end->send);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (unsigned)i);
	}
	/* one byte beyond one's own region: the request fails in its turn, what is behind it is flushed */
	CHECK(!post(end, 0, 1000, 100, IBV_SEND_SIGNALED, 0, 0));
	CHECK(!post(end, 1, end->size, 101, 0, 0, 0));
	CHECK(!post(end, 0, 10, 102, 0, 0, 0));
	wc = wait_wc(end->send);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 100);
	wc = wait_wc(end->send);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 101);
	wc = wait_wc(end->send);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 102);
	CHECK(!ibv_get_async_event(end->context, &event) && event.event_type == IBV_EVENT_QP_FATAL);
	ibv_ack_async_event(&event);
	/* a new connection by the same QP; then a key that the peer never gave */
	CHECK(!modify(end, IBV_QPS_RESET, IBV_QP_STATE, NULL, 0));
	int fd = open("e", O_WRONLY);
	CHECK(write(fd, "x", 1) == 1);
}

static void bad_key(struct end *end, const char *out, const char *in)
{
	struct mrc_async_event event;

	connect_end(end, out, in);
	if (out[0] == 'c') {
		end->peer.rkey ^= 1;
		CHECK(!post(end, 0, 10, 200, 0, 0, 0));
		struct ibv_wc wc = wait_wc(end->send);

		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 200);
	}
	CHECK(!mrc_get_async_event(end->mrc, &event) && event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == end->qp);
	mrc_ack_async_event(&event);
}

int main(int argc, char **argv)
{
	struct end end;

	CHECK(argc == 3 && !chdir(argv[2]));
	open_end(&end, 20000, 16);
	if (!strcmp(argv[1], "send")) {
		sender(&end);
		bad_key(&end, "c", "d");
	} else {
		connect_end(&end, "b", "a");
		struct ibv_qp_attr v = {.qp_state = IBV_QPS_RESET};
		int fd = open("e", O_RDONLY); /* until the other end comes again */
		char token;

		CHECK(read(fd, &token, 1) == 1);
		CHECK(!mrc_modify_qp(end.qp, &v, IBV_QP_STATE, NULL, 0));
		bad_key(&end, "d", "c");
	}
	close_end(&end);
	printf("%s done\n", argv[1]);
	return 0;
}
