/* The connection to the host's agent: calls, shared memory, the doorbell; and what fork does to them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "lib.h"

#define REST_NS 50000

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct agent *all;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* A child has the parent's descriptors, but none of its queues: they must not keep the parent's alive. */
static void in_child(void)
{
	pthread_mutex_init(&all_lock, NULL);
	for (struct agent *agent = all; agent; agent = agent->next) {
		atomic_store(&agent->dead, FORKED);
		pthread_mutex_init(&agent->lock, NULL);
		close(agent->socket);
		close(agent->doorbell);
		agent->socket = agent->doorbell = -1;
	}
	all = NULL;
}

static void lock_all(void)
{
	pthread_mutex_lock(&all_lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_all, unlock_all, in_child);
}

void *agent_share(size_t size, int *fd)
{
	void *memory;

	*fd = memfd_create("mrc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return NULL;
	/* Sealed, so that the agent may touch it without fear that it shrinks. */
	if (ftruncate(*fd, size) || fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(*fd);
		return NULL;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED) {
		close(*fd);
		return NULL;
	}
	return memory;
}

int agent_connect(struct agent *agent, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int room = 2 * WIRE_MAX_BYTES;

	pthread_once(&fork_once, watch_forks);
	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	agent->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (agent->socket < 0)
		return errno;
	setsockopt(agent->socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(agent->socket, (struct sockaddr *)&address, sizeof(address))) {
		close(agent->socket);
		return errno == ECONNREFUSED ? EIO : errno;
	}
	pthread_mutex_init(&agent->lock, NULL);
	agent->doorbell = agent->events = -1;
	atomic_init(&agent->dead, 0);
	lock_all();
	agent->next = all;
	all = agent;
	unlock_all();
	return 0;
}

void agent_close(struct agent *agent)
{
	lock_all();
	for (struct agent **at = &all; *at; at = &(*at)->next)
		if (*at == agent) {
			*at = agent->next;
			break;
		}
	unlock_all();
	if (agent->socket >= 0)
		close(agent->socket);
	if (agent->doorbell >= 0)
		close(agent->doorbell);
	if (agent->events >= 0)
		close(agent->events);
	if (agent->page)
		munmap(agent->page, sizeof(*agent->page));
	pthread_mutex_destroy(&agent->lock);
}

/* Introduce the program: its memory, doorbell, pipe for events, and page. */
int agent_hello(struct agent *agent, struct call *call)
{
	int ends[2] = {-1, -1}, page = -1, memory, error = 0;

	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	agent->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	agent->page = agent_share(sizeof(*agent->page), &page);
	if (memory < 0 || agent->doorbell < 0 || !agent->page || pipe2(ends, O_CLOEXEC)) {
		error = errno ? errno : EIO;
	} else {
		agent->events = ends[0];
		call->fds[0] = memory;
		call->fds[1] = agent->doorbell;
		call->fds[2] = ends[1];
		call->fds[3] = page;
		call->n_fds = 4;
		error = agent_call(agent, call);
	}
	if (memory >= 0)
		close(memory);
	if (page >= 0)
		close(page);
	if (ends[1] >= 0)
		close(ends[1]);
	return error;
}

static int send_call(int socket, const struct call *call)
{
	uint32_t head[2] = {call->op, call->n};
	struct iovec parts[3] = {
		{head, sizeof(head)},
		{(void *)call->number, call->n * sizeof(uint64_t)},
		{(void *)call->bytes, call->length},
	};
	char room[CMSG_SPACE(sizeof(call->fds))] = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

	if (call->n_fds) {
		struct cmsghdr *control;

		message.msg_control = room;
		message.msg_controllen = CMSG_SPACE(call->n_fds * sizeof(int));
		control = CMSG_FIRSTHDR(&message);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(call->n_fds * sizeof(int));
		memcpy(CMSG_DATA(control), call->fds, call->n_fds * sizeof(int));
	}
	while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return errno == EMSGSIZE ? E2BIG : EIO;
	return 0;
}

static int receive_answer(int socket, struct call *call)
{
	char *answer = malloc(WIRE_MAX_BYTES + 1024);
	int32_t error = ENOMEM;
	ssize_t got;
	size_t at;

	if (!answer)
		return ENOMEM;
	do
		got = recv(socket, answer, WIRE_MAX_BYTES + 1024, 0);
	while (got < 0 && errno == EINTR);
	if (got < 8) {
		free(answer);
		return EIO;
	}
	memcpy(&error, answer, 4);
	memcpy(&call->results, answer + 4, 4);
	if (call->results > WIRE_MAX_NUMBERS)
		call->results = WIRE_MAX_NUMBERS;
	at = 8 + call->results * sizeof(uint64_t);
	if ((size_t)got >= at) {
		memcpy(call->result, answer + 8, at - 8);
		call->got = got - at;
		if (error && call->got && getenv("MRCLAB_EXPLAIN"))
			fprintf(stderr, "lib_mrc: %.*s\n", (int)call->got, answer + at);
		if (call->got > call->room)
			call->got = call->room;
		if (call->into)
			memcpy(call->into, answer + at, call->got);
	}
	free(answer);
	return error;
}

int agent_call(struct agent *agent, struct call *call)
{
	int error;

	if (call->length > WIRE_MAX_BYTES)
		return E2BIG;
	pthread_mutex_lock(&agent->lock);
	if (atomic_load(&agent->dead)) {
		error = EIO;
	} else {
		error = send_call(agent->socket, call);
		if (!error) {
			call->results = 0xFFFFFFFF;
			error = receive_answer(agent->socket, call);
			if (error == EIO && call->results == 0xFFFFFFFF)
				atomic_store(&agent->dead, GONE);
		} else if (error == EIO) {
			atomic_store(&agent->dead, GONE);
		}
	}
	pthread_mutex_unlock(&agent->lock);
	if (call->results == 0xFFFFFFFF)
		call->results = 0;
	return error;
}

int agent_check(struct agent *agent)
{
	struct pollfd look = {.fd = agent->socket, .events = 0};

	if (!atomic_load(&agent->dead) && poll(&look, 1, 0) > 0 && look.revents & (POLLHUP | POLLERR | POLLNVAL))
		atomic_store(&agent->dead, GONE);
	return atomic_load(&agent->dead) ? EIO : 0;
}

void agent_ring(struct agent *agent)
{
	static const uint64_t one = 1;

	if (!__atomic_exchange_n(&agent->page->rung, 1, __ATOMIC_SEQ_CST) && write(agent->doorbell, &one, 8) < 0)
		agent_check(agent);
}

void agent_rest(void)
{
	struct timespec rest = {0, REST_NS};

	nanosleep(&rest, NULL);
}
