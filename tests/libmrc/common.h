/* What the test programs share: checks that say where they failed, and a QP pair joined over a pair of files. */
#ifndef TEST_COMMON_H
#define TEST_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mrc.h>
#include <mrc_ctl.h>

#define CHECK(what)                                                                                       \
	do {                                                                                              \
		errno = 0;                                                                                \
		if (!(what)) {                                                                            \
			printf("%s:%d: %s failed (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
			exit(1);                                                                          \
		}                                                                                         \
	} while (0)

/* A call that must be refused with an errno. */
#define REFUSED(code, what)                                                                                  \
	do {                                                                                                 \
		errno = 0;                                                                                   \
		if (!(what) || errno != (code)) {                                                            \
			printf("%s:%d: %s: errno %d, not %d\n", __FILE__, __LINE__, #what, errno, code); \
			exit(1);                                                                             \
		}                                                                                            \
	} while (0)

struct side {
	uint32_t qpn, rkey, psn;
	uint64_t address;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *context;
	struct mrc_context *mrc;
	struct ibv_pd *pd;
	struct mrc_cq *send, *recv;
	struct mrc_qp *qp;
	struct ibv_mr *mr;
	struct mrc_comp_channel *channel;
	char *buffer;
	size_t size;
	struct side own, peer;
};

static inline struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

static inline void make_qp(struct end *end, int depth, int signal_all)
{
	struct mrc_qp_init_attr init = {
		.send_cq = end->send,
		.recv_cq = end->recv,
		.pd = end->pd,
		.sq_sig_all = signal_all,
		.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 4, .max_recv_sge = 1,
			.max_inline_data = 64},
	};

	end->qp = mrc_create_qp(end->mrc, &init);
	CHECK(end->qp);
}

static inline void open_end(struct end *end, size_t size, int depth)
{
	struct mrc_context_attr attr = {.mrc_api_version_used = MRC_API_CURRENT_VERSION};

	memset(end, 0, sizeof(*end));
	end->context = open_first();
	end->mrc = mrc_create_context(end->context, &attr);
	CHECK(end->mrc);
	end->pd = ibv_alloc_pd(end->context);
	CHECK(end->pd);
	CHECK(!mrc_create_comp_channel(end->mrc, &end->channel));
	end->send = mrc_create_cq(end->mrc, depth, &end->send, end->channel, 0);
	end->recv = mrc_create_cq(end->mrc, depth, &end->recv, end->channel, 0);
	CHECK(end->send && end->recv);
	make_qp(end, depth, 0);
	end->size = size;
	CHECK(end->buffer = malloc(size + 100) + 37); /* on no page's boundary */
	end->mr = ibv_reg_mr(end->pd, end->buffer, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(end->mr);
}

static inline void to_init(struct end *end)
{
	struct ibv_qp_attr v = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};

	CHECK(!mrc_modify_qp(end->qp, &v, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL, 0));
}

static inline void to_rtr(struct end *end, struct mrc_qp_attr *m, int mask)
{
	struct ibv_qp_attr v = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = end->peer.qpn,
				.rq_psn = end->peer.psn, .ah_attr = {.is_global = 1, .port_num = 1}};

	v.ah_attr.grh.dgid = end->peer.gid;
	CHECK(!mrc_modify_qp(end->qp, &v,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, m, mask));
}

static inline void to_rts(struct end *end, struct mrc_qp_attr *m, int mask)
{
	struct ibv_qp_attr v = {.qp_state = IBV_QPS_RTS, .sq_psn = end->own.psn};

	CHECK(!mrc_modify_qp(end->qp, &v, IBV_QP_STATE | IBV_QP_SQ_PSN, m, mask));
}

/* Exchange what the peer must know through two named pipes, `out` and `in`. */
static inline void meet(struct end *end, const char *out, const char *in)
{
	int first = out[strlen(out) - 1] < in[strlen(in) - 1], to, from;

	end->own.psn = getpid() * 2654435761u & 0xFFFFFF;
	end->own.rkey = end->mr->rkey;
	end->own.address = (uintptr_t)end->buffer;
	CHECK(!mrc_get_qpn(end->qp, &end->own.qpn));
	CHECK(!ibv_query_gid(end->context, 1, 3, &end->own.gid));
	if (first)
		to = open(out, O_WRONLY), from = open(in, O_RDONLY);
	else
		from = open(in, O_RDONLY), to = open(out, O_WRONLY);
	CHECK(write(to, &end->own, sizeof(end->own)) == sizeof(end->own));
	CHECK(read(from, &end->peer, sizeof(end->peer)) == sizeof(end->peer));
	close(to);
	close(from);
}

static inline void connect_end(struct end *end, const char *out, const char *in)
{
	to_init(end);
	meet(end, out, in);
	to_rtr(end, NULL, 0);
	to_rts(end, NULL, 0);
}

static inline int post(struct end *end, size_t at, uint32_t length, uint64_t id, int flags, int with_imm, uint32_t imm)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer + at, length, end->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .send_flags = flags,
				 .opcode = with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE}, *bad;

	wr.imm_data = htonl(imm);
	wr.wr.rdma.remote_addr = end->peer.address + at;
	wr.wr.rdma.rkey = end->peer.rkey;
	return mrc_post_send(end->qp, &wr, &bad);
}

static inline void receive(struct end *end, uint64_t id)
{
	struct ibv_recv_wr wr = {.wr_id = id}, *bad;

	CHECK(!mrc_post_recv(end->qp, &wr, &bad));
}

static inline struct ibv_wc wait_wc(struct mrc_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = mrc_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

static inline void close_end(struct end *end)
{
	CHECK(!mrc_destroy_qp(end->qp));
	CHECK(!mrc_destroy_cq(end->send));
	CHECK(!mrc_destroy_cq(end->recv));
	CHECK(!mrc_destroy_comp_channel(end->channel));
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(!ibv_dealloc_pd(end->pd));
	CHECK(!mrc_destroy_context(end->mrc));
	CHECK(!ibv_close_device(end->context));
}

#endif
