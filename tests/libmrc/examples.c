/* examples ROLE OUT IN: the steps that the published documents show, with their numbers: 256 explicit EVs on one port,
 * generated EVs of three fields, EVs denied by value, SRv6 formats with and without SRH; and a QP on each STEV profile. */
#include "common.h"

static void format(struct end *end, uint64_t id, enum mrc_ctl_ev_fmt_mode mode, const int *widths, int n)
{
	struct mrc_ctl_ev_fmt_field fields[16];
	struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = mode,
		.ev_fmt_op = {.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, .fmt_fields = fields, .fmt_field_count = n}};

	for (int i = 0; i < n; i++)
		fields[i].width = widths[i];
	CHECK(!mrc_ctl_modify_ev_fmt_profile(end->mrc, id, &attr,
		MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP));
	attr.profile_state = MRC_CTL_PROFILE_ONLINE;
	CHECK(!mrc_ctl_modify_ev_fmt_profile(end->mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE));
}

static int modify(struct end *end, uint64_t id, struct mrc_ctl_ev_profile_attr attr, int mask)
{
	return mrc_ctl_modify_ev_profile(end->mrc, id, &attr, mask);
}

static struct mrc_ctl_ev numbered(uint32_t i)
{
	struct mrc_ctl_ev ev = {.port = 1};
	uint32_t value = i << 16 | i;

	memcpy(ev.val, &value, sizeof(value));
	return ev;
}

static void online(struct end *end, uint64_t id)
{
	CHECK(!modify(end, id, (struct mrc_ctl_ev_profile_attr){.profile_state = MRC_CTL_PROFILE_ONLINE}, MRC_CTL_EV_PROFILE_STATE));
}

static const int FIRST = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
			 MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK;

static void explicit_evs(struct end *end, uint32_t count)
{
	struct mrc_ctl_ev_op_entry entry = {.state = MRC_CTL_EV_GOOD}, *all = calloc(count, sizeof(*all));
	struct mrc_ctl_ev_profile_attr op = {.ev_op = {MRC_CTL_EV_OP_REPLACE_EV, &entry, 1}};

	CHECK(!modify(end, 1, (struct mrc_ctl_ev_profile_attr){.profile_state = MRC_CTL_PROFILE_OFFLINE,
		.ev_mode = MRC_CTL_EV_MODE_EXP, .ev_fmt_profile_id = 13, .ev_count = count, .ev_min_active = count / 4,
		.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD}, FIRST));
	for (uint32_t i = 0; i < count; i++) {
		entry.ev = MRC_CTL_EV_UNPOPULATED;
		entry.ev_new = numbered(i);
		CHECK(!modify(end, 1, op, MRC_CTL_EV_PROFILE_EV_OP));
	}
	online(end, 1);
	op.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
	entry.state = MRC_CTL_EV_DENIED;
	for (uint32_t i = 13; i <= 42; i++) {
		entry.ev = numbered(i);
		CHECK(!modify(end, 1, op, MRC_CTL_EV_PROFILE_EV_OP));
	}
	op.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
	entry.state = MRC_CTL_EV_GOOD;
	for (uint32_t i = 13; i <= 42; i++) {
		entry.ev = numbered(i);
		entry.ev_new = numbered(i + 1000);
		CHECK(!modify(end, 1, op, MRC_CTL_EV_PROFILE_EV_OP));
	}
	op.ev_op = (typeof(op.ev_op)){MRC_CTL_EV_OP_QUERY_EV_ARRAY, all, count};
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 1, &op, MRC_CTL_EV_PROFILE_EV_OP) && op.ev_op.entry_count == (int)count);
	for (uint32_t i = 0; i < count; i++) {
		struct mrc_ctl_ev wanted = numbered(i >= 13 && i <= 42 ? i + 1000 : i);

		CHECK(!memcmp(&all[i].ev, &wanted, sizeof(wanted)) && all[i].state == MRC_CTL_EV_GOOD);
	}
	free(all);
}

static void generated_evs(struct end *end, uint32_t count)
{
	struct mrc_ctl_ev_field fields[3] = {{8, 0, 0, 255, 0xff}, {4, 0, 0, 15, 0xf}, {4, 0, 0, 15, 0xf}};
	struct mrc_ctl_ev_op_entry *all = calloc(count, sizeof(*all)), entry = {.state = MRC_CTL_EV_DENIED};
	struct mrc_ctl_ev_profile_attr op = {.ev_op = {MRC_CTL_EV_OP_QUERY_EV_ARRAY, all, count}};
	int denied = 0;

	CHECK(!modify(end, 2, (struct mrc_ctl_ev_profile_attr){.profile_state = MRC_CTL_PROFILE_OFFLINE,
		.ev_mode = MRC_CTL_EV_MODE_GEN, .ev_fmt_profile_id = 12, .ev_count = count, .ev_min_active = count / 4,
		.ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, fields, 3}}, FIRST | MRC_CTL_EV_PROFILE_EV_FIELDS_OP));
	online(end, 2);
	CHECK(!mrc_ctl_query_ev_profile(end->mrc, 2, &op, MRC_CTL_EV_PROFILE_EV_OP));
	for (uint32_t i = 0; i < count; i++)
		if (all[i].ev.val[0] >= 180 && all[i].state == MRC_CTL_EV_GOOD) {
			entry.ev = all[i].ev;
			struct mrc_ctl_ev_profile_attr deny = {.ev_op = {MRC_CTL_EV_OP_MODIFY_EV_STATE, &entry, 1}};

			CHECK(!modify(end, 2, deny, MRC_CTL_EV_PROFILE_EV_OP));
			denied++;
		}
	CHECK(denied > 0 && denied < (int)count);
	free(all);
}

static void transfer(struct end *end, uint64_t profile, int first, const char *out, const char *in)
{
	struct mrc_qp_attr m = {.profile = {.ev_profile_id = profile}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT}, reset = {.qp_state = IBV_QPS_RESET};

	CHECK(!mrc_modify_qp(end->qp, &init, IBV_QP_STATE, &m, profile ? MRC_QP_EV_PROFILE_ID : 0));
	if (!first)
		receive(end, 1);
	meet(end, out, in);
	to_rtr(end, NULL, 0);
	to_rts(end, NULL, 0);
	if (first) {
		CHECK(!post(end, 0, end->size, 1, IBV_SEND_SIGNALED, 1, 1));
		CHECK(wait_wc(end->send).status == IBV_WC_SUCCESS);
	} else {
		CHECK(wait_wc(end->recv).status == IBV_WC_SUCCESS);
	}
	usleep(200000); /* the other end has its completion, too, before this one is reset */
	CHECK(!mrc_modify_qp(end->qp, &reset, IBV_QP_STATE, NULL, 0));
}

int main(int argc, char **argv)
{
	static const int halves[] = {16, 16}, tiers[] = {8, 4, 4}, srv6[] = {32, 16, 16, 16, 16};
	static const int srh[] = {32, 16, 16, 16, 16, 16, 16, 32, 16, 16};
	struct mrc_ctl_device_attr device;
	struct end end;
	int first;

	CHECK(argc == 4);
	first = !strcmp(argv[1], "send");
	open_end(&end, 150000, 16);
	if (first) {
		CHECK(!mrc_ctl_query_device(end.context, &device));
		format(&end, 12, MRC_CTL_EV_FMT_MODE_STEV, tiers, 3);
		format(&end, 13, MRC_CTL_EV_FMT_MODE_STEV, halves, 2);
		format(&end, 14, MRC_CTL_EV_FMT_MODE_SRV6, srv6, 5);
		format(&end, 15, MRC_CTL_EV_FMT_MODE_SRV6, srh, 10);
		explicit_evs(&end, device.ev.ev_max_count_profile);
		generated_evs(&end, device.ev.ev_max_count_profile);
	}
	transfer(&end, first ? 1 : 0, first, argv[2], argv[3]);
	transfer(&end, first ? 2 : 0, first, argv[2], argv[3]);
	close_end(&end);
	printf("%s done\n", argv[1]);
	return 0;
}
