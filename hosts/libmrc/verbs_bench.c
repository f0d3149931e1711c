/* verbs_bench send|receive COUNT BYTES: what writes cost a program. Says its side of the connection in one line, reads
 * the peer's from stdin; the sender then says "SECONDS NANOSECONDS", the latter spent in mrc_post_send per request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <arpa/inet.h>
#include <mrc.h>

#define DEPTH 128
#define SIGNAL_EVERY 32

static void need(int held, const char *what)
{
	if (!held) {
		perror(what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static void go_to(struct mrc_qp *qp, struct ibv_qp_attr attr, int mask)
{
	need(!mrc_modify_qp(qp, &attr, IBV_QP_STATE | mask, NULL, 0), "modify_qp");
}

static void measure(struct mrc_qp *qp, struct mrc_cq *cq, struct ibv_sge sge, uint64_t to, uint32_t rkey, long count)
{
	double began = now(), posting = 0;
	long posted = 0, done = 0;

	while (done < count) {
		double from = now();

		while (posted < count && posted - done < DEPTH) {
			struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr_id = posted + 1};

			if (++posted % SIGNAL_EVERY == 0 || posted == count)
				wr.send_flags = IBV_SEND_SIGNALED;
			wr.wr.rdma.remote_addr = to;
			wr.wr.rdma.rkey = rkey;
			need(!mrc_post_send(qp, &wr, &bad), "post_send");
		}
		posting += now() - from;
		struct ibv_wc wc[8];
		int n = mrc_poll_cq(cq, 8, wc);

		need(n >= 0, "poll_cq");
		for (int i = 0; i < n; i++) {
			need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
			done = wc[i].wr_id;
		}
	}
	printf("%.9f %.1f\n", now() - began, posting * 1e9 / count);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .ah_attr = {.is_global = 1}};
	char text[INET6_ADDRSTRLEN];
	union ibv_gid gid;
	uint64_t to;
	uint32_t number, rkey;

	need(argc == 4, "usage: verbs_bench send|receive COUNT BYTES");
	long count = atol(argv[2]), bytes = atol(argv[3]);
	struct ibv_device **list = ibv_get_device_list(NULL);
	need(list && list[0], "no device");
	struct ibv_context *context = ibv_open_device(list[0]);
	need(context != NULL, "open_device");
	struct mrc_context *mrc = mrc_create_context(context, NULL);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct mrc_cq *cq = mrc_create_cq(mrc, 2 * DEPTH, NULL, NULL, 0);
	struct mrc_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .pd = pd,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct mrc_qp *qp = mrc_create_qp(mrc, &init);
	char *buffer = calloc(1, bytes);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	need(qp && mr && !mrc_get_qpn(qp, &number) && !ibv_query_gid(context, 1, 0, &gid), "set-up");
	printf("%s %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", inet_ntop(AF_INET6, &gid, text, sizeof(text)), number, mr->rkey,
	       (uint64_t)(uintptr_t)buffer);
	fflush(stdout);
	need(scanf("%45s %" SCNu32 " %" SCNu32 " %" SCNu64, text, &rtr.dest_qp_num, &rkey, &to) == 4, "the peer's line");
	need(inet_pton(AF_INET6, text, &rtr.ah_attr.grh.dgid) == 1, "the peer's address");
	go_to(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE}, IBV_QP_ACCESS_FLAGS);
	go_to(qp, rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	go_to(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_SQ_PSN);
	printf("ready\n");
	fflush(stdout);
	need(scanf("%9s", text) == 1, "the word to begin or end");
	if (!strcmp(argv[1], "send"))
		measure(qp, cq, (struct ibv_sge){(uintptr_t)buffer, bytes, mr->lkey}, to, rkey, count);
	return 0;
}
