/* writes ROLE OUT IN: every kind of request from one end to the other, and its completions. */
#include "common.h"

#define SIZE 300000

static void fill(char *at, size_t n, int salt)
{
	for (size_t i = 0; i < n; i++)
		at[i] = i * 31 + salt;
}

static void sender(struct end *end)
{
	struct ibv_wc wc;
	struct ibv_sge parts[3];
	struct ibv_send_wr second = {0}, first = {0}, *bad;
	char small[5] = "hello";

	fill(end->buffer, SIZE, 1);
	/* unsignalled, then signalled: one completion */
	CHECK(!post(end, 0, 100000, 1, 0, 0, 0));
	CHECK(!post(end, 100000, 100000, 2, IBV_SEND_SIGNALED, 0, 0));
	wc = wait_wc(end->send);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && wc.opcode == IBV_WC_RDMA_WRITE && wc.qp_num == end->own.qpn);
	CHECK(mrc_poll_cq(end->send, 1, &wc) == 0);
	/* a list of two: scattered with an immediate, and inline */
	for (int i = 0; i < 3; i++)
		parts[i] = (struct ibv_sge){(uintptr_t)end->buffer + 200000 + i * 5000, 5000 - i * 700, end->mr->lkey};
	first.wr_id = 3;
	first.next = &second;
	first.sg_list = parts;
	first.num_sge = 3;
	first.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	first.imm_data = htonl(0xDEADBEEF);
	first.send_flags = IBV_SEND_SIGNALED;
	first.wr.rdma.remote_addr = end->peer.address + 200000;
	first.wr.rdma.rkey = end->peer.rkey;
	second.wr_id = 4;
	parts[2].length = parts[2].length;
	struct ibv_sge inline_part = {(uintptr_t)small, sizeof(small), 0};
	second.sg_list = &inline_part;
	second.num_sge = 1;
	second.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	second.imm_data = htonl(7);
	second.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	second.wr.rdma.remote_addr = end->peer.address + 290000;
	second.wr.rdma.rkey = end->peer.rkey;
	CHECK(!mrc_post_send(end->qp, &first, &bad));
	memset(small, 0, sizeof(small)); /* inline data is the library's at once */
	/* told by the channel */
	struct mrc_cq *cq;
	void *user;
	int events = 0;

	for (int done = 0; done < 2;) {
		CHECK(!mrc_req_notify_cq(end->send, 0));
		int n = mrc_poll_cq(end->send, 1, &wc);
		CHECK(n >= 0);
		if (!n) {
			CHECK(!mrc_get_cq_event(end->channel, &cq, &user));
			CHECK(cq == end->send && user == &end->send);
			events++;
			continue;
		}
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 3u + done);
		done++;
	}
	mrc_ack_cq_events(end->send, events);
	/* nothing at all, with an immediate */
	CHECK(!post(end, 0, 0, 5, IBV_SEND_SIGNALED, 1, 9));
	wc = wait_wc(end->send);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5);
	printf("events %d\n", events);
}

static void receiver(struct end *end)
{
	static const uint32_t immediates[] = {0xDEADBEEF, 7, 9}, lengths[] = {5000 + 4300 + 3600, 5, 0};
	char *expected = malloc(SIZE);
	size_t at = 200000;

	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc = wait_wc(end->recv);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 70u + i);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == immediates[i] && wc.byte_len == lengths[i]);
	}
	fill(expected, SIZE, 1);
	CHECK(!memcmp(expected, end->buffer, 200000));
	for (int i = 0; i < 3; i++) {
		CHECK(!memcmp(expected + 200000 + i * 5000, end->buffer + at, 5000 - i * 700));
		at += 5000 - i * 700;
	}
	CHECK(!memcmp(end->buffer + 290000, "hello", 5));
}

int main(int argc, char **argv)
{
	struct end end;

	CHECK(argc == 4);
	open_end(&end, SIZE, 64);
	to_init(&end);
	if (!strcmp(argv[1], "receive"))
		for (int i = 0; i < 3; i++)
			receive(&end, 70 + i); /* before there is a peer */
	meet(&end, argv[2], argv[3]);
	to_rtr(&end, NULL, 0);
	to_rts(&end, NULL, 0);
	if (!strcmp(argv[1], "send"))
		sender(&end);
	else
		receiver(&end);
	close_end(&end);
	printf("%s done\n", argv[1]);
	return 0;
}
