/* The control interface: profiles, EV events, probes, ports. All state is the agent's, and shared by all programs. */
#define _GNU_SOURCE
#include <stdint.h>

#include "lib.h"

#define MAX_ENTRIES 1024
#define MAX_FIELDS 64
#define MAX_PROBES 256

static struct agent *agent_of(struct mrc_context *mrc)
{
	return &mrc->context->agent;
}

EXPORT void mrc_ctl_query_version(uint32_t *current, uint32_t *last, uint32_t *vendor, uint32_t *last_vendor)
{
	*current = MRC_CTL_API_CURRENT_VERSION;
	*last = MRC_CTL_API_LAST_SUPPORTED_VERSION;
	*vendor = MRC_CTL_VENDOR_API_CURRENT_VERSION;
	*last_vendor = MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION;
}

EXPORT int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr)
{
	static const char *algorithms[] = {"uet-1.0-nscc", NULL};
	struct call call = {.op = OP_CTL_QUERY_DEVICE};
	uint32_t *ev;
	int error;

	if (!context || !attr)
		return failed(EINVAL);
	error = agent_call(&context_of(context)->agent, &call);
	if (error)
		return failed(error);
	memset(attr, 0, sizeof(*attr));
	attr->mrc_ctl_protocol_version = MRC_CTL_PROTOCOL_VERSION_1;
	ev = &attr->ev.ev_max_fmt_profiles; /* ten numbers in a row, as the agent gives them */
	for (int i = 0; i < 10; i++)
		ev[i] = call.result[i];
	attr->cc.cc_max_profiles = call.result[10];
	attr->cc.algorithms = algorithms;
	attr->phy_port_mask = call.result[11];
	attr->opt_attr = MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE | MRC_CTL_OPT_CAP_EV_EVENT |
			 MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE;
	return 0;
}

EXPORT int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mrc,
				   struct mrc_ctl_device_attr *attr, int *supported)
{
	if (!mrc || !supported || mrc->context != context_of(context))
		return failed(EINVAL);
	*supported = 1;
	return mrc_ctl_query_device(context, attr);
}

/* --- ports -------------------------------------------------------------------------------------------------------------- */

EXPORT int mrc_ctl_query_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int mask)
{
	struct call call = {.op = OP_CTL_QUERY_PORT, .n = 1, .number = {port}};
	int error;

	if (!mrc || !attr || mask & ~MRC_CTL_PORT_ADMIN_STATE)
		return failed(EINVAL);
	error = agent_call(agent_of(mrc), &call);
	if (!error && mask)
		attr->port_admin_state = call.result[0];
	return failed(error);
}

EXPORT int mrc_ctl_modify_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int mask)
{
	struct call call = {.op = OP_CTL_MODIFY_PORT, .n = 2, .number = {port}};

	if (!mrc || !attr || mask & ~MRC_CTL_PORT_ADMIN_STATE || (mask && attr->port_admin_state > 1u))
		return failed(EINVAL);
	if (!mask) {
		call.op = OP_CTL_QUERY_PORT; /* nothing to do but to find out whether there is such a port */
		call.n = 1;
	}
	call.number[1] = attr->port_admin_state;
	return failed(agent_call(agent_of(mrc), &call));
}

/* --- EV format profiles ------------------------------------------------------------------------------------------------- */

static const int FMT_MASK = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE |
			    MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP | MRC_CTL_EV_FMT_VENDOR_CFG;

EXPORT int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *mrc, uint64_t id,
					 struct mrc_ctl_ev_fmt_profile_attr *attr, int mask)
{
	uint8_t bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE + MAX_FIELDS];
	struct call call = {.op = OP_CTL_MODIFY_EV_FMT, .n = 6, .bytes = bytes};
	int fields = 0;

	if (!mrc || !attr || mask & ~FMT_MASK)
		return failed(EINVAL);
	if (mask & MRC_CTL_EV_FMT_PROFILE_OP) {
		fields = attr->ev_fmt_op.fmt_field_count;
		if (attr->ev_fmt_op.op == MRC_CTL_EV_FMT_OP_QUERY_FIELDS)
			return mrc_ctl_query_ev_fmt_profile(mrc, id, attr, mask);
		if (attr->ev_fmt_op.op != MRC_CTL_EV_FMT_OP_MODIFY_FIELDS || fields < 1 || !attr->ev_fmt_op.fmt_fields)
			return failed(EINVAL);
		if (fields > MAX_FIELDS)
			return failed(E2BIG);
	}
	call.number[0] = id;
	call.number[1] = (uint32_t)mask;
	call.number[2] = attr->profile_state;
	call.number[3] = attr->cur_profile_state;
	call.number[4] = attr->ev_fmt_mode;
	call.number[5] = fields;
	memcpy(bytes, attr->vendor_cfg, sizeof(attr->vendor_cfg));
	for (int i = 0; i < fields; i++)
		bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE + i] = attr->ev_fmt_op.fmt_fields[i].width;
	call.length = MRC_CTL_MAX_VENDOR_CFG_SIZE + fields;
	return failed(agent_call(agent_of(mrc), &call));
}

EXPORT int mrc_ctl_query_ev_fmt_profile(struct mrc_context *mrc, uint64_t id,
					struct mrc_ctl_ev_fmt_profile_attr *attr, int mask)
{
	uint8_t bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE + MAX_FIELDS] = {0};
	struct call call = {.op = OP_CTL_QUERY_EV_FMT, .n = 1, .number = {id}, .into = bytes, .room = sizeof(bytes)};
	int error, room = 0, fields;

	if (!mrc || !attr || mask & ~FMT_MASK)
		return failed(EINVAL);
	if (mask & MRC_CTL_EV_FMT_PROFILE_OP) {
		room = attr->ev_fmt_op.fmt_field_count;
		if (attr->ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS || room < 0 ||
		    (room && !attr->ev_fmt_op.fmt_fields))
			return failed(EINVAL);
	}
	error = agent_call(agent_of(mrc), &call);
	if (error)
		return failed(error);
	if (mask & MRC_CTL_EV_FMT_PROFILE_STATE)
		attr->profile_state = call.result[0];
	if (mask & MRC_CTL_EV_FMT_PROFILE_CUR_STATE)
		attr->cur_profile_state = call.result[0];
	if (mask & MRC_CTL_EV_FMT_PROFILE_MODE)
		attr->ev_fmt_mode = call.result[1];
	if (mask & MRC_CTL_EV_FMT_VENDOR_CFG)
		memcpy(attr->vendor_cfg, bytes, sizeof(attr->vendor_cfg));
	if (mask & MRC_CTL_EV_FMT_PROFILE_OP) {
		fields = call.result[2];
		attr->ev_fmt_op.fmt_field_count = fields;
		if (fields > room)
			return failed(E2BIG);
		for (int i = 0; i < fields; i++)
			attr->ev_fmt_op.fmt_fields[i].width = bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE + i];
	}
	return 0;
}

/* --- EV profiles ---------------------------------------------------------------------------------------------------------- */

static const int EV_MASK = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE | MRC_CTL_EV_PROFILE_MODE |
			   MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
			   MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP |
			   MRC_CTL_EV_PROFILE_VENDOR_CFG;
static const int BOTH_OPS = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;

static void ev_out(struct wire_ev *to, const struct mrc_ctl_ev *from)
{
	memcpy(to->value, from->val, sizeof(to->value));
	to->port = from->port;
}

static void ev_in(struct mrc_ctl_ev *to, const struct wire_ev *from)
{
	memcpy(to->val, from->value, sizeof(to->val));
	to->port = from->port;
}

/* What the agent needs of both operations: EV entries, or fields, behind the vendor's bytes. 0 or an errno. */
static int pack_ev(struct call *call, struct mrc_ctl_ev_profile_attr *attr, int mask, int query)
{
	int entries = mask & MRC_CTL_EV_PROFILE_EV_OP ? attr->ev_op.entry_count : 0;
	int fields = mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP ? attr->ev_fields_op.field_count : 0;
	size_t size = MRC_CTL_MAX_VENDOR_CFG_SIZE;
	uint8_t *bytes;

	if (entries < 0 || fields < 0 || (entries && !attr->ev_op.entries) || (fields && !attr->ev_fields_op.fields))
		return EINVAL;
	if (query && attr->ev_op.op == MRC_CTL_EV_OP_QUERY_EV_ARRAY)
		entries = 0;
	if (query)
		fields = 0;
	if (entries > MAX_ENTRIES || fields > MAX_FIELDS)
		return E2BIG;
	bytes = calloc(1, size + entries * sizeof(struct wire_ev_entry) + fields * sizeof(struct wire_field));
	if (!bytes)
		return ENOMEM;
	memcpy(bytes, attr->vendor_cfg, size);
	for (int i = 0; i < entries; i++) {
		struct wire_ev_entry entry = {.state = attr->ev_op.entries[i].state, .flags = attr->ev_op.entries[i].flags};

		ev_out(&entry.ev, &attr->ev_op.entries[i].ev);
		ev_out(&entry.ev_new, &attr->ev_op.entries[i].ev_new);
		memcpy(bytes + size, &entry, sizeof(entry));
		size += sizeof(entry);
	}
	for (int i = 0; i < fields; i++) {
		memcpy(bytes + size, &attr->ev_fields_op.fields[i], sizeof(struct wire_field));
		size += sizeof(struct wire_field);
	}
	call->bytes = bytes;
	call->length = size;
	call->number[10] = entries;
	call->number[12] = fields;
	return 0;
}

static void number_ev(struct call *call, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask)
{
	call->n = 13;
	call->number[0] = id;
	call->number[1] = (uint32_t)mask;
	call->number[2] = attr->profile_state;
	call->number[3] = attr->cur_profile_state;
	call->number[4] = attr->ev_mode;
	call->number[5] = attr->ev_fmt_profile_id;
	call->number[6] = attr->ev_count;
	call->number[7] = attr->ev_min_active;
	call->number[8] = (uint32_t)attr->ev_event_mask;
	call->number[9] = attr->ev_op.op;
	call->number[11] = attr->ev_fields_op.op;
}

EXPORT int mrc_ctl_modify_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr,
				     int mask)
{
	struct call call = {.op = OP_CTL_MODIFY_EV};
	int error;

	if (!mrc || !attr || mask & ~EV_MASK || (mask & BOTH_OPS) == BOTH_OPS)
		return failed(EINVAL);
	if ((mask & MRC_CTL_EV_PROFILE_EV_OP && attr->ev_op.op >= MRC_CTL_EV_OP_QUERY_EV_STATE) ||
	    (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP && attr->ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS)) {
		if (mask & ~(BOTH_OPS | MRC_CTL_EV_PROFILE_CUR_STATE))
			return failed(EINVAL);
		return mrc_ctl_query_ev_profile(mrc, id, attr, mask);
	}
	error = pack_ev(&call, attr, mask, 0);
	if (!error) {
		number_ev(&call, id, attr, mask);
		error = agent_call(agent_of(mrc), &call);
	}
	free((void *)call.bytes);
	return failed(error);
}

static int take_entries(struct call *call, struct mrc_ctl_ev_profile_attr *attr)
{
	const struct wire_ev_entry *entries = (void *)((char *)call->into + MRC_CTL_MAX_VENDOR_CFG_SIZE);
	int found = call->result[6], room = attr->ev_op.entry_count;

	if (attr->ev_op.op == MRC_CTL_EV_OP_QUERY_EV_STATE) {
		for (int i = 0; i < found && i < room; i++)
			attr->ev_op.entries[i].state = entries[i].state;
		return 0;
	}
	attr->ev_op.entry_count = found;
	if (found > room)
		return E2BIG;
	for (int i = 0; i < found; i++) {
		ev_in(&attr->ev_op.entries[i].ev, &entries[i].ev);
		attr->ev_op.entries[i].state = entries[i].state;
	}
	return 0;
}

static int take_fields(struct call *call, struct mrc_ctl_ev_profile_attr *attr)
{
	int found = call->result[7], room = attr->ev_fields_op.field_count;

	attr->ev_fields_op.field_count = found;
	if (found > room)
		return E2BIG;
	memcpy(attr->ev_fields_op.fields, (char *)call->into + MRC_CTL_MAX_VENDOR_CFG_SIZE,
	       found * sizeof(struct wire_field));
	return 0;
}

EXPORT int mrc_ctl_query_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr,
				    int mask)
{
	struct call call = {.op = OP_CTL_QUERY_EV, .room = WIRE_MAX_BYTES};
	int error;

	if (!mrc || !attr || mask & ~EV_MASK || (mask & BOTH_OPS) == BOTH_OPS)
		return failed(EINVAL);
	if (mask & MRC_CTL_EV_PROFILE_EV_OP && attr->ev_op.op != MRC_CTL_EV_OP_QUERY_EV_STATE &&
	    attr->ev_op.op != MRC_CTL_EV_OP_QUERY_EV_ARRAY)
		return failed(EINVAL);
	if (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP && attr->ev_fields_op.op != MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS)
		return failed(EINVAL);
	call.into = malloc(call.room);
	error = call.into ? pack_ev(&call, attr, mask, 1) : ENOMEM;
	if (!error) {
		number_ev(&call, id, attr, mask);
		error = agent_call(agent_of(mrc), &call);
	}
	if (!error) {
		if (mask & MRC_CTL_EV_PROFILE_STATE)
			attr->profile_state = call.result[0];
		if (mask & MRC_CTL_EV_PROFILE_CUR_STATE)
			attr->cur_profile_state = call.result[0];
		if (mask & MRC_CTL_EV_PROFILE_MODE)
			attr->ev_mode = call.result[1];
		if (mask & MRC_CTL_EV_PROFILE_FMT_ID)
			attr->ev_fmt_profile_id = call.result[2];
		if (mask & MRC_CTL_EV_PROFILE_COUNT)
			attr->ev_count = call.result[3];
		if (mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE)
			attr->ev_min_active = call.result[4];
		if (mask & MRC_CTL_EV_PROFILE_EVENT_MASK)
			attr->ev_event_mask = call.result[5];
		if (mask & MRC_CTL_EV_PROFILE_VENDOR_CFG)
			memcpy(attr->vendor_cfg, call.into, sizeof(attr->vendor_cfg));
		if (mask & MRC_CTL_EV_PROFILE_EV_OP)
			error = take_entries(&call, attr);
		if (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP)
			error = take_fields(&call, attr);
	}
	free((void *)call.bytes);
	free(call.into);
	return failed(error);
}

/* --- congestion control profiles -------------------------------------------------------------------------------------------- */

static const int CC_MASK = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE | MRC_CTL_CC_PROFILE_ALGORITHM |
			   MRC_CTL_CC_PROFILE_CONFIG | MRC_CTL_CC_PROFILE_VENDOR_CFG;

static uint64_t of_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return bits;
}

static float to_float(uint64_t value)
{
	uint32_t bits = value;
	float number;

	memcpy(&number, &bits, 4);
	return number;
}

EXPORT int mrc_ctl_modify_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr,
				     int mask)
{
	uint8_t bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE + 64] = {0};
	struct call call = {.op = OP_CTL_MODIFY_CC, .n = 4, .bytes = bytes, .length = MRC_CTL_MAX_VENDOR_CFG_SIZE};
	const struct mrc_ctl_cc_nscc_cfg *c;

	if (!mrc || !attr || mask & ~CC_MASK)
		return failed(EINVAL);
	call.number[0] = id;
	call.number[1] = (uint32_t)mask;
	call.number[2] = attr->profile_state;
	call.number[3] = attr->cur_profile_state;
	memcpy(bytes, attr->vendor_cfg, sizeof(attr->vendor_cfg));
	if (mask & MRC_CTL_CC_PROFILE_ALGORITHM && attr->algorithm) {
		size_t length = strlen(attr->algorithm);

		if (length > 63)
			return failed(EINVAL);
		memcpy(bytes + MRC_CTL_MAX_VENDOR_CFG_SIZE, attr->algorithm, length);
		call.length += length;
	}
	c = attr->cc_config;
	if (mask & MRC_CTL_CC_PROFILE_CONFIG && c) {
		const uint64_t values[] = {
			c->disable_qa, c->adjust_bytes_threshold, c->adjust_period_threshold, c->base_rtt,
			of_float(c->eta), of_float(c->fi), of_float(c->fi_scale), of_float(c->gamma),
			of_float(c->max_md_jump), c->max_cwnd, c->qa_gate, c->qa_threshold, c->target_delay,
		};

		memcpy(&call.number[4], values, sizeof(values));
		call.n += sizeof(values) / sizeof(*values);
	}
	return failed(agent_call(agent_of(mrc), &call));
}

EXPORT int mrc_ctl_query_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr,
				    int mask)
{
	uint8_t bytes[MRC_CTL_MAX_VENDOR_CFG_SIZE] = {0};
	struct call call = {.op = OP_CTL_QUERY_CC, .n = 1, .number = {id}, .into = bytes, .room = sizeof(bytes)};
	struct mrc_ctl_cc_nscc_cfg *c;
	const uint64_t *r = call.result;
	int error;

	if (!mrc || !attr || mask & ~CC_MASK)
		return failed(EINVAL);
	error = agent_call(agent_of(mrc), &call);
	if (error)
		return failed(error);
	if (mask & MRC_CTL_CC_PROFILE_STATE)
		attr->profile_state = r[0];
	if (mask & MRC_CTL_CC_PROFILE_CUR_STATE)
		attr->cur_profile_state = r[0];
	if (mask & MRC_CTL_CC_PROFILE_ALGORITHM)
		attr->algorithm = r[1] ? "uet-1.0-nscc" : NULL;
	if (mask & MRC_CTL_CC_PROFILE_VENDOR_CFG)
		memcpy(attr->vendor_cfg, bytes, sizeof(bytes));
	c = (struct mrc_ctl_cc_nscc_cfg *)attr->cc_config; /* the caller's room for it, where it gave some */
	if (mask & MRC_CTL_CC_PROFILE_CONFIG && c && r[1])
		*c = (struct mrc_ctl_cc_nscc_cfg){
			.disable_qa = r[2], .adjust_bytes_threshold = r[3], .adjust_period_threshold = r[4],
			.base_rtt = r[5], .eta = to_float(r[6]), .fi = to_float(r[7]), .fi_scale = to_float(r[8]),
			.gamma = to_float(r[9]), .max_md_jump = to_float(r[10]), .max_cwnd = r[11], .qa_gate = r[12],
			.qa_threshold = r[13], .target_delay = r[14],
		};
	return 0;
}

/* --- EV events ------------------------------------------------------------------------------------------------------------------ */

/* The event as programs of before 1.0.1 know it: without its state. */
struct old_ev_event {
	uint64_t profile_id;
	struct mrc_ctl_ev ev;
	uint32_t drop_count;
};

EXPORT int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int num_entries, struct mrc_ctl_ev_event *out)
{
	struct wire_ev_event *events;
	struct call call = {.op = OP_CTL_POLL_EV, .n = 2};
	int error, n;

	if (!cq || !cq->for_evs || num_entries < 0 || (num_entries && !out))
		return -EINVAL;
	if (num_entries > MAX_ENTRIES)
		num_entries = MAX_ENTRIES;
	call.room = num_entries * sizeof(*events);
	call.into = events = malloc(call.room + 1);
	if (!events)
		return -ENOMEM;
	call.number[0] = cq->handle;
	call.number[1] = num_entries;
	error = agent_call(agent_of(cq->mrc), &call);
	n = error ? -error : (int)(call.got / sizeof(*events));
	for (int i = 0; i < n; i++) {
		struct mrc_ctl_ev_event *to = &out[i];

		if (cq->mrc->version < (uint32_t)MRC_API_VER(1, 0, 1))
			to = (void *)((struct old_ev_event *)out + i);
		else
			to->state = events[i].state;
		to->profile_id = events[i].profile;
		ev_in(&to->ev, &events[i].ev);
		to->drop_count = events[i].dropped;
	}
	free(events);
	if (n < 0)
		errno = -n;
	return n;
}

/* --- probes ------------------------------------------------------------------------------------------------------------------------ */

static int ask(struct mrc_context *mrc, struct call *call)
{
	/* Over a connection of its own: the answers come late, and other calls must not wait for them. */
	struct device *device = (struct device *)mrc->context->ibv.device;
	struct call hello = {.op = OP_HELLO, .n = 1, .number = {WIRE_VERSION}};
	struct agent agent = {0};
	int error = atomic_load(&mrc->context->agent.dead) ? EIO : agent_connect(&agent, device->path);

	if (error)
		return EIO;
	error = agent_hello(&agent, &hello);
	if (!error)
		error = agent_call(&agent, call);
	agent_close(&agent);
	return error;
}

EXPORT int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc, uint8_t req_tc, enum mrc_ctl_ep_op_type op,
				      struct mrc_ctl_ep_req *req, int num_req, uint32_t timeout,
				      struct mrc_ctl_ep_rsp *rsp, int *num_rsp)
{
	struct wire_probe *probes;
	struct wire_probe_answer answers[MAX_PROBES];
	struct call call = {.op = OP_CTL_PROBE, .n = 2, .number = {req_tc, timeout}, .into = answers,
			    .room = sizeof(answers)};
	int error;

	if (!mrc || !req || !rsp || !num_rsp || num_req < 1)
		return failed(EINVAL);
	*num_rsp = 0;
	if (op == MRC_CTL_EP_OP_PORT_STATUS_UPDATE)
		return failed(ENOTSUP); /* the transport itself tells its peers; see docs/ocp-api.md */
	if (op != MRC_CTL_EP_OP_EV_PROBE || num_req > MAX_PROBES)
		return failed(EINVAL);
	call.bytes = probes = calloc(num_req, sizeof(*probes));
	if (!probes)
		return failed(ENOMEM);
	call.length = num_req * sizeof(*probes);
	for (int i = 0; i < num_req; i++) {
		memcpy(probes[i].dgid, &req[i].dgid, sizeof(probes[i].dgid));
		ev_out(&probes[i].ev, &req[i].req_ev);
		probes[i].format = req[i].ev_fmt_mode;
		probes[i].id = req[i].req_id;
	}
	error = ask(mrc, &call);
	free(probes);
	if (error)
		return failed(error);
	*num_rsp = call.got / sizeof(*answers);
	for (int i = 0; i < *num_rsp; i++)
		rsp[i] = (struct mrc_ctl_ep_rsp){
			.req_id = answers[i].id, .port = answers[i].port, .rtt = answers[i].rtt,
			.adj_svc_time = answers[i].adjusted,
		};
	return *num_rsp < num_req ? failed(ETIMEDOUT) : 0;
}
