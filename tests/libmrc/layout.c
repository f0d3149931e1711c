/* Print sizes and offsets of wire.h, for the agent's numbers to be held to. */
#include <stddef.h>
#include <stdio.h>

#include "wire.h"

#define SIZE(name, type) printf(name " %zu\n", sizeof(type))
#define AT(name, type, field) printf(name " %zu\n", offsetof(type, field))
#define WORD(name, type, field) printf(name " %zu\n", offsetof(type, field) / 4)
#define NUMBER(name, value) printf(name " %llu\n", (unsigned long long)(value))

int main(void)
{
	NUMBER("VERSION", WIRE_VERSION);
	NUMBER("MAX_NUMBERS", WIRE_MAX_NUMBERS);
	NUMBER("MAX_BYTES", WIRE_MAX_BYTES);
	NUMBER("MAX_SGE", WIRE_MAX_SGE);
	NUMBER("MAX_INLINE", WIRE_MAX_INLINE);
	NUMBER("last_op", OP_CTL_PROBE);
	NUMBER("CREATE_QP", OP_CREATE_QP);
	SIZE("PAGE_BYTES", struct wire_page);
	WORD("CQ_TAIL", struct wire_cq, tail);
	WORD("CQ_OVERFLOW", struct wire_cq, overflow);
	WORD("CQ_HEAD", struct wire_cq, head);
	WORD("CQ_ARMED", struct wire_cq, armed);
	SIZE("CQ_ENTRIES", struct wire_cq);
	SIZE("CQE", struct wire_cqe);
	WORD("QP_SQ_TAIL", struct wire_qp, sq_tail);
	WORD("QP_RQ_TAIL", struct wire_qp, rq_tail);
	WORD("QP_STATE", struct wire_qp, state);
	SIZE("QP_SLOTS", struct wire_qp);
	SIZE("SEND", struct wire_send);
	AT("SEND_DATA", struct wire_send, data);
	SIZE("RECV", struct wire_recv);
	SIZE("SGE", struct wire_sge);
	SIZE("EVENT", struct wire_event);
	SIZE("EV", struct wire_ev);
	SIZE("EV_EVENT", struct wire_ev_event);
	SIZE("EV_ENTRY", struct wire_ev_entry);
	SIZE("FIELD", struct wire_field);
	SIZE("PROBE", struct wire_probe);
	SIZE("PROBE_ANSWER", struct wire_probe_answer);
	return 0;
}
