/* control ROLE OUT IN: profiles of every mode and format, their steps and operations; events, probes, ports; a QP with them. */
#include "common.h"

#define FMT_MASK (MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP)

static void format(struct end *end, uint64_t id, enum mrc_ctl_ev_fmt_mode mode, struct mrc_ctl_ev_fmt_field *fields, int n)
{
	struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = mode,
		.ev_fmt_op = {.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, .fmt_fields = fields, .fmt_field_count = n}};

	CHECK(!mrc_ctl_modify_ev_fmt_profile(end->mrc, id, &attr, FMT_MASK));
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	CHECK(!mrc_ctl_modify_ev_fmt_profile(end->mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE));
}

static int step(struct end *end, uint64_t id, enum mrc_ctl_profile_state to)
{
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = to};

	return mrc_ctl_modify_ev_profile(end->mrc, id, &attr, MRC_CTL_EV_PROFILE_STATE);
}

static int operate(struct end *end, uint64_t id, enum mrc_ctl_ev_op op, struct mrc_ctl_ev_op_entry *entries, int n)
{
	struct mrc_ctl_ev_profile_attr attr = {.ev_op = {.op = op, .entries = entries, .entry_count = n}};

	return mrc_ctl_modify_ev_profile(end->mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP);
}

static struct mrc_ctl_ev stev(int plane, int uplink, int tag)
{
	struct mrc_ctl_ev ev = {.port = plane};
	uint32_t value = htonl((uint32_t)plane << 28 | uplink << 20 | tag);

	memcpy(ev.val, &value, 4);
	return ev;
}

static void formats(struct end *end)
{
	struct mrc_ctl_ev_fmt_field halves[2] = {{16}, {16}}, wide[2] = {{16}, {17}}, usids[5] = {{32}, {16}, {16}, {16}, {16}};
	struct mrc_ctl_ev_fmt_field found[2];
	struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE,
		.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV,
		.ev_fmt_op = {.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, .fmt_fields = wide, .fmt_field_count = 2}};

	REFUSED(E2BIG, mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &attr, FMT_MASK) == -1);
	REFUSED(EINVAL, mrc_ctl_modify_ev_fmt_profile(end->mrc, 65, &attr, FMT_MASK) == -1);
	REFUSED(EINVAL, mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &attr, FMT_MASK | 1 << 9) == -1);
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	REFUSED(EINVAL, mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &attr, MRC_CTL_EV_FMT_PROFILE_STATE) == -1);
	format(end, 13, MRC_CTL_EV_FMT_MODE_STEV, halves, 2);
	format(end, 14, MRC_CTL_EV_FMT_MODE_SRV6, usids, 5);
	REFUSED(EINVAL, mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &attr, MRC_CTL_EV_FMT_PROFILE_MODE) == -1);
	attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_QUERY_FIELDS;
	attr.ev_fmt_op.fmt_fields = found;
	attr.ev_fmt_op.fmt_field_count = 1;
	REFUSED(E2BIG, mrc_ctl_query_ev_fmt_profile(end->mrc, 13, &attr, MRC_CTL_EV_FMT_PROFILE_OP) == -1);
	CHECK(attr.ev_fmt_op.fmt_field_count == 2);
	CHECK(!mrc_ctl_query_ev_fmt_profile(end->mrc, 13, &attr, FMT_MASK) && found[1].width == 16);
	CHECK(attr.profile_state == MRC_CTL_PROFILE_ONLINE && attr.ev_fmt_mode == MRC_CTL_EV_FMT_MODE_STEV);
}

static void explicit_profile(struct end *end)
{
	static const int FIRST = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
				 MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK;
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP,
		.ev_fmt_profile_id = 13, .ev_count = 4, .ev_min_active = 5, .ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD};
	struct mrc_ctl_ev_op_entry entry = {.ev = MRC_CTL_EV_UNPOPULATED, .state = MRC_CTL_EV_GOOD}, all[4];

	REFUSED(EINVAL, mrc_ctl_modify_ev_profile(end->mrc, 1, &attr, FIRST) == -1); /* more active than there are */
	attr.ev_min_active = 1;
	attr.ev_event_mask = MRC_CTL_EV_DENIED;
	REFUSED(EINVAL, mrc_ctl_modify_ev_profile(end->mrc, 1, &attr, FIRST) == -1);
	attr.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
	attr.ev_count = 257;
	REFUSED(E2BIG, mrc_ctl_modify_ev_profile(end->mrc, 1, &attr, FIRST) == -1);
	attr.ev_count = 4;
	attr.ev_fmt_profile_id = 20;
	REFUSED(EINVAL, mrc_ctl_modify_ev_profile(end->mrc, 1, &attr, FIRST) == -1); /* a format that is not ONLINE */
	attr.ev_fmt_profile_id = 13;
	REFUSED(EINVAL, mrc_ctl_modify_ev_profile(end->mrc, 1, &attr,
		FIRST | MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == -1);
	CHECK(!mrc_ctl_modify_ev_profile(end->mrc, 1, &attr, FIRST));
	REFUSED(EINVAL, step(end, 1, MRC_CTL_PROFILE_ONLINE) == -1); /* unpopulated */
	for (int i = 0; i < 4; i++) {
		entry.ev_new = stev(i % 2 + 1, i / 2 + 1, i);
		CHECK(!operate(end, 1, MRC_CTL_EV_OP_REPLACE_EV, &entry, 1));
	}
	REFUSED(ENOENT, operate(end, 1, MRC_CTL_EV_OP_REPLACE_EV, &entry, 1) == -1); /* none unpopulated is left */
	CHECK(!step(end, 1, MRC_CTL_PROFILE_ONLINE));
	REFUSED(EINVAL, step(end, 1, MRC_CTL_PROFILE_INIT) == -1);
	entry.ev = stev(1, 1, 0);
	entry.state = MRC_CTL_EV_ASSUMED_BAD;
	REFUSED(EINVAL, operate(end, 1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1) == -1);
	entry.state = MRC_CTL_EV_DENIED;
	CHECK(!operate(end, 1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1));
	entry.ev = stev(1, 1, 9);
	REFUSED(ENOENT, operate(end, 1, MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1) == -1);
	/* ONLINE, but no QP has it yet: an EV may be replaced */
	entry.ev = stev(2, 2, 3);
	entry.ev_new = stev(2, 2, 33);
	entry.state = MRC_CTL_EV_GOOD;
	CHECK(!operate(end, 1, MRC_CTL_EV_OP_REPLACE_EV, &entry, 1));
	attr = (struct mrc_ctl_ev_profile_attr){.ev_op = {.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = all, .entry_count = 3}};
	REFUSED(E2BIG, mrc_ctl_query_ev_profile(end->mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP) == -1);
	CHECK(attr.ev_op.entry_count == 4);
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP | FIRST));
	CHECK(attr.ev_count == 4 && attr.ev_min_active == 1 && attr.ev_mode == MRC_CTL_EV_MODE_EXP && attr.profile_state == 2);
	entry.ev_new = stev(2, 2, 33);
	CHECK(all[0].state == MRC_CTL_EV_DENIED && all[1].state == MRC_CTL_EV_GOOD && all[3].ev.val[3] == 33 && all[3].ev.port == 2);
	entry.ev = stev(1, 1, 0);
	attr.ev_op = (typeof(attr.ev_op)){MRC_CTL_EV_OP_QUERY_EV_STATE, &entry, 1};
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP) && entry.state == MRC_CTL_EV_DENIED);
}

static void generated_profile(struct end *end)
{
	struct mrc_ctl_ev_field fields[2] = {{16, 0x1000, 1, 3, 0x0030}, {16, 0, 0, 0, 0xffff}}, found[4];
	struct mrc_ctl_ev_op_entry all[64];
	struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_GEN,
		.ev_fmt_profile_id = 13, .ev_count = 64, .ev_min_active = 4,
		.ev_fields_op = {.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, .fields = fields, .field_count = 2}};
	int mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT |
		   MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;

	fields[0].max_val = 4; /* two mask bits hold no 4 */
	REFUSED(EINVAL, mrc_ctl_modify_ev_profile(end->mrc, 2, &attr, mask) == -1);
	fields[0].max_val = 3;
	CHECK(!mrc_ctl_modify_ev_profile(end->mrc, 2, &attr, mask));
	CHECK(!step(end, 2, MRC_CTL_PROFILE_ONLINE));
	attr.ev_op = (typeof(attr.ev_op)){MRC_CTL_EV_OP_QUERY_EV_ARRAY, all, 64};
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_OP) && attr.ev_op.entry_count == 64);
	for (int i = 0; i < 64; i++)
		CHECK(all[i].ev.val[0] >> 6 >= 1 && !(all[i].ev.val[2] & 0x3f) && all[i].ev.port == i % 4 + 1);
	attr.ev_fields_op = (typeof(attr.ev_fields_op)){MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS, found, 4};
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 2, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) && attr.ev_fields_op.field_count == 2);
	CHECK(!memcmp(found, fields, sizeof(fields)));
}

static void congestion_profile(struct end *end)
{
	struct mrc_ctl_cc_nscc_cfg config = {.base_rtt = 18000000, .gamma = 0.5, .qa_gate = 2}, found;
	struct mrc_ctl_cc_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "cubic"};
	int first = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM;

	REFUSED(EINVAL, mrc_ctl_modify_cc_profile(end->mrc, 3, &attr, first) == -1);
	attr.algorithm = "uet-1.0-nscc";
	CHECK(!mrc_ctl_modify_cc_profile(end->mrc, 3, &attr, first));
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	REFUSED(EINVAL, mrc_ctl_modify_cc_profile(end->mrc, 3, &attr, MRC_CTL_CC_PROFILE_STATE) == -1); /* no config yet */
	attr.cc_config = &config;
	config.gamma = 2;
	REFUSED(EINVAL, mrc_ctl_modify_cc_profile(end->mrc, 3, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CONFIG) == -1);
	config.gamma = 0.5;
	CHECK(!mrc_ctl_modify_cc_profile(end->mrc, 3, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CONFIG));
	attr = (struct mrc_ctl_cc_profile_attr){.cc_config = &found};
	CHECK(!mrc_ctl_query_cc_profile(end->mrc, 3, &attr, first | MRC_CTL_CC_PROFILE_CONFIG));
	CHECK(attr.profile_state == MRC_CTL_PROFILE_ONLINE && !strcmp(attr.algorithm, "uet-1.0-nscc"));
	CHECK(found.base_rtt == 18000000 && found.gamma == 0.5f && found.qa_gate == 2);
}

static void probes(struct end *end)
{
	struct mrc_ctl_ep_req req[3] = {{0}};
	struct mrc_ctl_ep_rsp rsp[3];
	int n;

	for (int i = 0; i < 3; i++) {
		req[i].req_id = 70 + i;
		req[i].sgid = end->own.gid;
		req[i].dgid = end->peer.gid;
		req[i].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV;
		req[i].req_ev = stev(i + 1, 1, 0);
	}
	CHECK(!mrc_ctl_ep_batch_send_wait(end->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 3, 1000000000, rsp, &n) && n == 3);
	for (int i = 0; i < 3; i++)
		CHECK(rsp[i].rtt > 10000000 && rsp[i].rtt < 100000000 && rsp[i].req_id >= 70 && rsp[i].req_id < 73);
	errno = 0;
	CHECK(mrc_ctl_ep_batch_send_wait(end->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 2, 1000, rsp, &n) == -1 && n == 0);
	REFUSED(ENOTSUP, mrc_ctl_ep_batch_send_wait(end->mrc, 0, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, req, 1, 1, rsp, &n) == -1);
	memset(&req[0].dgid, 1, 16);
	REFUSED(EINVAL, mrc_ctl_ep_batch_send_wait(end->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 1, 1000, rsp, &n) == -1);
}

static void ports(struct end *end)
{
	struct mrc_ctl_port_attr attr = {MRC_CTL_PORT_ADMIN_DISABLED};
	struct ibv_port_attr port;
	struct mrc_async_event event;

	CHECK(!mrc_ctl_modify_port(end->mrc, 4, &attr, MRC_CTL_PORT_ADMIN_STATE));
	CHECK(!ibv_query_port(end->context, 4, &port) && port.state == IBV_PORT_DOWN);
	CHECK(!mrc_get_async_event(end->mrc, &event) && event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num == 4);
	mrc_ack_async_event(&event);
	attr.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED;
	CHECK(!mrc_ctl_modify_port(end->mrc, 4, &attr, MRC_CTL_PORT_ADMIN_STATE));
	CHECK(!mrc_get_async_event(end->mrc, &event) && event.event_type == IBV_EVENT_PORT_ACTIVE);
	mrc_ack_async_event(&event);
	attr.port_admin_state = 7;
	CHECK(!mrc_ctl_query_port(end->mrc, 4, &attr, MRC_CTL_PORT_ADMIN_STATE) && attr.port_admin_state == 1);
	REFUSED(EINVAL, mrc_ctl_query_port(end->mrc, 5, &attr, MRC_CTL_PORT_ADMIN_STATE) == -1);
}

static void sender(struct end *end, const char *out, const char *in)
{
	struct mrc_ctl_device_attr device;
	struct mrc_qp_attr m = {.profile = {1, 3}};
	struct ibv_qp_attr v = {.qp_state = IBV_QPS_INIT};
	struct mrc_ctl_ev_event events[4];
	struct mrc_cq *evs;

	CHECK(!mrc_ctl_query_device(end->context, &device));
	CHECK(device.ev.ev_max_count_profile == 256 && device.ev.ev_count_align == 1 && device.phy_port_mask == 0x1e);
	CHECK(!strcmp(device.cc.algorithms[0], "uet-1.0-nscc") && !device.cc.algorithms[1]);
	CHECK(device.opt_attr & MRC_CTL_OPT_CAP_EV_EVENT && device.opt_attr & MRC_CTL_OPT_CAP_EP_OP_EV_PROBE);
	formats(end);
	explicit_profile(end);
	generated_profile(end);
	congestion_profile(end);
	CHECK(!mrc_modify_qp(end->qp, &v, IBV_QP_STATE, &m, MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID));
	meet(end, out, in);
	probes(end);
	ports(end);
	to_rtr(end, NULL, 0);
	to_rts(end, NULL, 0);
	REFUSED(EBUSY, step(end, 1, MRC_CTL_PROFILE_OFFLINE) == -1);
	struct mrc_ctl_ev_fmt_profile_attr fmt = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
	REFUSED(EBUSY, mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &fmt, MRC_CTL_EV_FMT_PROFILE_STATE) == -1);
	struct mrc_ctl_cc_profile_attr cc = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
	REFUSED(EBUSY, mrc_ctl_modify_cc_profile(end->mrc, 3, &cc, MRC_CTL_CC_PROFILE_STATE) == -1);
	/* uplink 2 of plane 1 loses everything: an event says so */
	evs = mrc_ctl_create_ev_event_cq(end->mrc, 8, NULL, end->channel, 0);
	CHECK(evs && !mrc_req_notify_cq(evs, 0) && mrc_ctl_poll_ev_event(evs, 4, events) == 0);
	CHECK(!post(end, 0, end->size, 1, IBV_SEND_SIGNALED, 1, 1));
	CHECK(wait_wc(end->send).status == IBV_WC_SUCCESS);
	struct mrc_cq *cq;
	void *user;
	CHECK(!mrc_get_cq_event(end->channel, &cq, &user) && cq == evs);
	mrc_ack_cq_events(evs, 1);
	CHECK(mrc_ctl_poll_ev_event(evs, 4, events) >= 1);
	CHECK(events[0].profile_id == 1 && events[0].ev.port == 1 && events[0].state == MRC_CTL_EV_ASSUMED_BAD);
	struct mrc_ctl_ev_op_entry entry = {.ev = stev(1, 2, 2)};
	struct mrc_ctl_ev_profile_attr attr = {.ev_op = {MRC_CTL_EV_OP_QUERY_EV_STATE, &entry, 1}};
	CHECK(!memcmp(&entry.ev, &events[0].ev, sizeof(entry.ev)) && events[0].drop_count == 0);
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 1, &attr, MRC_CTL_EV_PROFILE_EV_OP) && entry.state == MRC_CTL_EV_ASSUMED_BAD);
	CHECK(!mrc_destroy_cq(evs));
	CHECK(!mrc_destroy_qp(end->qp));
	CHECK(!step(end, 1, MRC_CTL_PROFILE_OFFLINE) && !step(end, 1, MRC_CTL_PROFILE_INIT));
	CHECK(!step(end, 2, MRC_CTL_PROFILE_OFFLINE));
	CHECK(!mrc_ctl_modify_cc_profile(end->mrc, 3, &cc, MRC_CTL_CC_PROFILE_STATE));
	CHECK(!mrc_ctl_modify_ev_fmt_profile(end->mrc, 13, &fmt, MRC_CTL_EV_FMT_PROFILE_STATE));
	make_qp(end, 4, 0);
}

int main(int argc, char **argv)
{
	struct end end;

	CHECK(argc == 4);
	open_end(&end, 200000, 16);
	if (!strcmp(argv[1], "send")) {
		sender(&end, argv[2], argv[3]);
	} else {
		to_init(&end);
		receive(&end, 1);
		meet(&end, argv[2], argv[3]);
		to_rtr(&end, NULL, 0);
		to_rts(&end, NULL, 0);
		CHECK(wait_wc(end.recv).status == IBV_WC_SUCCESS);
	}
	close_end(&end);
	printf("%s done\n", argv[1]);
	return 0;
}
