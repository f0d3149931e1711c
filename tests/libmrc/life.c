/* life ROLE OUT IN: what ends in the middle. writer: posts for ever; wait: until the end of something; threads; fork;
 * reset: with a completion that waits. */
#include "common.h"

#include <pthread.h>
#include <sys/wait.h>

#define THREADS 4
#define EACH 50

static void *post_many(void *of)
{
	struct end *end = of;

	for (int i = 0; i < EACH;) {
		int error = post(end, 0, 1000, i, IBV_SEND_SIGNALED, 0, 0);

		CHECK(!error || error == ENOMEM);
		i += !error;
	}
	return NULL;
}

static void *poll_many(void *of)
{
	struct end *end = of;
	struct ibv_wc wc[8];
	long seen = 0;
	int n;

	while (seen < THREADS * EACH) {
		CHECK((n = mrc_poll_cq(end->send, 8, wc)) >= 0);
		for (int i = 0; i < n; i++)
			CHECK(wc[i].status == IBV_WC_SUCCESS);
		seen += n;
	}
	return (void *)seen;
}

static void *wait_for_event(void *of)
{
	struct end *end = of;
	struct mrc_cq *cq;
	void *user;

	errno = 0;
	return (void *)(intptr_t)(mrc_get_cq_event(end->channel, &cq, &user) == -1 && errno == EIO);
}

static void in_child(struct end *end)
{
	struct end own;
	struct ibv_wc wc;

	/* nothing of the parent's can be used, and the device can be opened anew */
	REFUSED(EIO, post(end, 0, 1, 1, 0, 0, 0) == EIO);
	REFUSED(EIO, !ibv_alloc_pd(end->context));
	REFUSED(EIO, mrc_poll_cq(end->send, 1, &wc) == -1); /* at once: it takes no completion from its parent */
	end->buffer[0] = 'c'; /* the child's own page */
	open_end(&own, 5000, 4);
	close_end(&own);
	exit(0);
}

int main(int argc, char **argv)
{
	struct end end;
	pthread_t threads[THREADS], poller;
	void *seen;

	CHECK(argc == 4);
	open_end(&end, 300000, 32);
	connect_end(&end, argv[2], argv[3]);
	printf("connected\n");
	fflush(stdout);
	if (!strcmp(argv[1], "writer")) {
		for (;;)
			if (post(&end, 0, end.size, 1, 0, 0, 0))
				usleep(1000);
	} else if (!strcmp(argv[1], "orphan")) {
		struct ibv_wc wc;
		int n;

		CHECK(!pthread_create(&poller, NULL, wait_for_event, &end));
		while ((n = mrc_poll_cq(end.recv, 1, &wc)) == 0)
			;
		CHECK(n == -1);
		REFUSED(EIO, mrc_poll_cq(end.recv, 1, &wc) == -1);
		CHECK(!pthread_join(poller, &seen) && seen);
		REFUSED(EIO, post(&end, 0, 1, 1, 0, 0, 0) == EIO);
		REFUSED(EIO, !ibv_alloc_pd(end.context));
		close_end(&end); /* what the agent had is gone; what the library has is freed, and no error invites to try again */
		printf("orphan done\n");
		return 0;
	} else if (!strcmp(argv[1], "threads")) {
		CHECK(!pthread_create(&poller, NULL, poll_many, &end));
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&threads[i], NULL, post_many, &end));
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_join(threads[i], NULL));
		CHECK(!pthread_join(poller, &seen) && (long)seen == THREADS * EACH);
		/* many immediates at once wait for their turn in the ring, whatever the peer takes */
		for (int i = 0; i < 32; i++)
			CHECK(!post(&end, 0, 10, i, IBV_SEND_SIGNALED, 1, i));
		for (int i = 0; i < 32; i++)
			CHECK(wait_wc(end.send).status == IBV_WC_SUCCESS);
	} else if (!strcmp(argv[1], "fork")) {
		int status, child;

		end.buffer[0] = 'p';
		CHECK(!post(&end, 0, 1, 8, IBV_SEND_SIGNALED, 0, 0));
		usleep(300000); /* its completion waits while there is a child */
		child = fork();
		if (!child)
			in_child(&end);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(end.buffer[0] == 'p');
		CHECK(wait_wc(end.send).wr_id == 8);
		CHECK(!post(&end, 0, 1, 9, IBV_SEND_SIGNALED, 1, 0)); /* the parent goes on */
		CHECK(wait_wc(end.send).status == IBV_WC_SUCCESS);
	} else if (!strcmp(argv[1], "reset")) {
		struct ibv_qp_attr v = {.qp_state = IBV_QPS_RESET};
		struct mrc_cq *cq;
		void *user;

		CHECK(!mrc_req_notify_cq(end.send, 0));
		CHECK(!post(&end, 0, 1, 7, IBV_SEND_SIGNALED, 1, 0));
		CHECK(!mrc_get_cq_event(end.channel, &cq, &user));
		mrc_ack_cq_events(cq, 1);
		for (int i = 0; i < 31; i++)
			CHECK(!post(&end, 0, end.size, i, 0, 0, 0));
		CHECK(!mrc_modify_qp(end.qp, &v, IBV_QP_STATE, NULL, 0));
		CHECK(wait_wc(end.send).wr_id == 7); /* of before the reset, which freed all places */
		to_init(&end);
		to_rtr(&end, NULL, 0);
		to_rts(&end, NULL, 0);
		for (int i = 0; i < 32; i++)
			CHECK(!post(&end, 0, end.size, i, 0, 0, 0));
	} else { /* take: receives for all immediates that may come */
		int wanted = atoi(argv[1]);

		for (int i = 0; i < wanted; i++) {
			if (i < 32)
				receive(&end, i);
		}
		for (int i = 0; i < wanted; i++) {
			CHECK(wait_wc(end.recv).status == IBV_WC_SUCCESS);
			if (i + 32 < wanted)
				receive(&end, i);
		}
	}
	close_end(&end);
	printf("%s done\n", argv[1]);
	return 0;
}
