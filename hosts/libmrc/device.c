/* Devices, contexts, protection domains and memory regions: what programs take from libibverbs. */
#define _GNU_SOURCE
#include <endian.h>
#include <stdio.h>
#include <sys/mman.h>

#include "lib.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define SOCKET_VARIABLE "MRCLAB_VERBS"
#define GIDS 4


static enum ibv_mtu mtu_below(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && bytes >= 512u << (mtu - IBV_MTU_256))
		mtu++;
	return mtu;
}

/* --- devices: the NIC of the host that the program runs in, where it runs in one -------------------------------- */

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	const char *path = getenv(SOCKET_VARIABLE);
	struct agent agent = {0};
	struct call hello = {.op = OP_HELLO, .n = 1, .number = {WIRE_VERSION}};

	if (num_devices)
		*num_devices = 0;
	if (!list || !path || strlen(path) >= sizeof(((struct device *)0)->path))
		return list;
	if (agent_connect(&agent, path))
		return list;
	if (!agent_hello(&agent, &hello)) {
		struct device *device = calloc(1, sizeof(*device));

		if (device) {
			device->ibv.node_type = IBV_NODE_CA;
			device->ibv.transport_type = IBV_TRANSPORT_IB;
			snprintf(device->ibv.name, sizeof(device->ibv.name), "mrc0");
			snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "mrc0");
			snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path), "/nonexistent/mrc0");
			strcpy(device->path, path);
			device->guid = hello.result[2];
			list[0] = &device->ibv;
			if (num_devices)
				*num_devices = 1;
		}
	}
	agent_close(&agent);
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	/* A context keeps a copy of its device, so the devices go as well. */
	for (struct ibv_device **at = list; at && *at; at++)
		free(*at);
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(((struct device *)device)->guid);
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return 0;
}

static int no_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n, (void)wc;
	return -EOPNOTSUPP;
}

static int no_notify(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return EOPNOTSUPP;
}

static int no_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EOPNOTSUPP;
}

static int no_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EOPNOTSUPP;
}

static int no_shared_receive(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	*bad = wr;
	return EOPNOTSUPP;
}

static struct ibv_mw *no_window(struct ibv_pd *pd, enum ibv_mw_type type)
{
	(void)pd, (void)type;
	errno = EOPNOTSUPP;
	return NULL;
}

static int no_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	(void)qp, (void)mw, (void)bind;
	return EOPNOTSUPP;
}

static int no_free(struct ibv_mw *mw)
{
	(void)mw;
	return EOPNOTSUPP;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct context *context = calloc(1, sizeof(*context));
	struct device *copy = malloc(sizeof(*copy));
	struct call hello = {.op = OP_HELLO, .n = 1, .number = {WIRE_VERSION}};
	int error;

	if (!context || !copy) {
		error = ENOMEM;
		goto out;
	}
	memcpy(copy, ibv, sizeof(*copy));
	error = agent_connect(&context->agent, copy->path);
	if (error)
		goto out;
	error = agent_hello(&context->agent, &hello);
	if (error) {
		agent_close(&context->agent);
		goto out;
	}
	context->ports = hello.result[0];
	context->path_mtu = hello.result[1];
	context->ibv.device = &copy->ibv;
	context->ibv.cmd_fd = -1;
	context->ibv.async_fd = context->agent.events;
	context->ibv.num_comp_vectors = 1;
	context->ibv.ops.poll_cq = no_poll;
	context->ibv.ops.req_notify_cq = no_notify;
	context->ibv.ops.post_send = no_send;
	context->ibv.ops.post_recv = no_receive;
	context->ibv.ops.post_srq_recv = no_shared_receive;
	context->ibv.ops.alloc_mw = no_window;
	context->ibv.ops.bind_mw = no_bind;
	context->ibv.ops.dealloc_mw = no_free;
	pthread_mutex_init(&context->ibv.mutex, NULL);
	pthread_mutex_init(&context->lock, NULL);
	pthread_cond_init(&context->acked, NULL);
	return &context->ibv;
out:
	free(context);
	free(copy);
	errno = error;
	return NULL;
}

EXPORT int ibv_close_device(struct ibv_context *ibv)
{
	struct context *context = context_of(ibv);

	agent_close(&context->agent);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->acked);
	free(ibv->device);
	free(context);
	return 0;
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct call call = {.op = OP_QUERY_DEVICE};
	int error = agent_call(&context_of(context)->agent, &call);

	if (error)
		return refused(error);
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "mrclab");
	attr->node_guid = attr->sys_image_guid = ibv_get_device_guid(context->device);
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 4096;
	attr->max_qp = call.result[0];
	attr->max_qp_wr = call.result[1];
	attr->max_sge = WIRE_MAX_SGE;
	attr->max_cq = call.result[2];
	attr->max_cqe = call.result[3];
	attr->max_mr = attr->max_pd = call.result[2];
	attr->max_pkeys = 1;
	attr->phys_port_cnt = context_of(context)->ports;
	return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct call call = {.op = OP_QUERY_PORT, .n = 1, .number = {port}};
	struct ibv_port_attr attr = {0};
	int error = agent_call(&context_of(context)->agent, &call);

	if (error)
		return refused(error);
	attr.state = call.result[0] ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr.max_mtu = attr.active_mtu = mtu_below(context_of(context)->path_mtu);
	attr.gid_tbl_len = GIDS;
	attr.max_msg_sz = 1u << 31;
	attr.pkey_tbl_len = 1;
	attr.active_width = 1;
	attr.active_speed = 1;
	attr.phys_state = call.result[0] ? 5 : call.result[1] ? 2 : 3; /* LinkUp, Polling, Disabled */
	attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	/* The part of the struct that this entry point has always had. */
	memcpy(compat, &attr, offsetof(struct ibv_port_attr, port_cap_flags2));
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct call call = {.op = OP_QUERY_GID, .n = 2, .number = {port, index}, .into = gid, .room = sizeof(*gid)};

	return failed(agent_call(&context_of(context)->agent, &call));
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	struct ibv_gid_entry found = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	if (flags)
		return EOPNOTSUPP;
	if (ibv_query_gid(context, port, index, &found.gid))
		return errno;
	memcpy(entry, &found, size < sizeof(found) ? size : sizeof(found));
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t size)
{
	size_t n = 0;

	for (uint32_t port = 1; port <= context_of(context)->ports; port++)
		for (uint32_t index = 0; index < GIDS; index++, n++) {
			int error = n < max ? _ibv_query_gid_ex(context, port, index, (void *)((char *)entries + n * size),
								flags, size) : EINVAL;
			if (error)
				return -error;
		}
	return n;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (port < 1 || port > context_of(context)->ports || index)
		return failed(EINVAL);
	*pkey = htobe16(0xFFFF);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	if (port < 1 || port > context_of(context)->ports || pkey != htobe16(0xFFFF))
		return failed(EINVAL);
	return 0;
}

/* --- protection domains, memory ------------------------------------------------------------------------------------ */

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct call call = {.op = OP_ALLOC_PD};
	struct ibv_pd *pd = malloc(sizeof(*pd));
	int error = pd ? agent_call(&context_of(context)->agent, &call) : ENOMEM;

	if (error) {
		free(pd);
		errno = error;
		return NULL;
	}
	pd->context = context;
	pd->handle = call.result[0];
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct call call = {.op = OP_DEALLOC_PD, .n = 1, .number = {pd->handle}};
	int error = agent_call(&context_of(pd->context)->agent, &call);

	if (error && error != EIO) /* without its agent nothing of it is left */
		return refused(error);
	free(pd);
	return 0;
}

/* Have the pages there, as a device that pins them would, and learn whether they may be used so. */
static int populate(void *address, size_t length, int access)
{
	long page = sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)address & -page, end = ((uintptr_t)address + length + page - 1) & -page;
	int advice = access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (!length || !madvise((void *)begin, end - begin, advice))
		return 0;
	if (errno == EINVAL && madvise((void *)begin, 0, advice))
		return 0; /* a kernel before 5.14, which has no such advice */
	return errno == EINVAL || errno == ENOMEM ? EFAULT : errno;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				       unsigned int access)
{
	const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_OPTIONAL_RANGE;
	struct call call = {.op = OP_REG_MR, .n = 5, .number = {pd->handle, (uintptr_t)address, length, iova, access}};
	struct ibv_mr *region = calloc(1, sizeof(*region));
	int error = !region ? ENOMEM : access & ~known ? EOPNOTSUPP : populate(address, length, access);

	if (!error && access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))
		error = EINVAL;
	if (!error)
		error = agent_call(&context_of(pd->context)->agent, &call);
	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	*region = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = address,
		.length = length,
		.handle = call.result[0],
		.lkey = call.result[0],
		.rkey = call.result[1],
	};
	return region;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, iova, access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct call call = {.op = OP_DEREG_MR, .n = 1, .number = {mr->lkey}};
	int error = agent_call(&context_of(mr->context)->agent, &call);

	if (error && error != EIO)
		return refused(error);
	free(mr);
	return 0;
}

EXPORT int ibv_fork_init(void)
{
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED; /* the agent reaches this process's pages, whatever a child writes to its own */
}

/* --- words ---------------------------------------------------------------------------------------------------------- */

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const words[] = {
		"success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "Work Request Flushed Error", "memory management operation error",
		"bad response error", "local access error", "remote invalid request error", "remote access error",
		"remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
		"local RDD violation error", "remote invalid RD request", "aborted error",
		"invalid EE context number", "invalid EE context state", "fatal error", "response timeout error",
		"general error",
	};

	return (unsigned)status < sizeof(words) / sizeof(*words) ? words[status] : "unknown";
}
