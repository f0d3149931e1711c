/* What lib_mrc.so and a host's agent say to each other: calls over a SOCK_SEQPACKET socket, rings in shared memory.
 * hosts/agent/provider/wire.py says the same to the agent; a test compares the two.
 *
 * A call is {u32 operation, u32 n, u64 argument[n]} and bytes behind it; the answer {i32 errno, u32 n, u64 result[n]}
 * and bytes. Both fit one packet. All numbers are those of this machine. */
#ifndef MRCLAB_WIRE_H
#define MRCLAB_WIRE_H

#include <stdint.h>

#define WIRE_VERSION 1
#define WIRE_MAX_NUMBERS 24
#define WIRE_MAX_BYTES (160 * 1024)

enum wire_op {
	OP_HELLO = 1, /* version -> ports, path MTU, GUID; bytes: host name. Passes: memory, doorbell, events, page */
	OP_QUERY_DEVICE,
	OP_QUERY_PORT,
	OP_QUERY_GID,
	OP_ALLOC_PD,
	OP_DEALLOC_PD,
	OP_REG_MR,
	OP_DEREG_MR,
	OP_CREATE_CHANNEL, /* passes the end of a pipe to write to */
	OP_DESTROY_CHANNEL,
	OP_CREATE_CQ, /* passes its ring */
	OP_DESTROY_CQ,
	OP_CREATE_QP, /* passes its rings */
	OP_MODIFY_QP,
	OP_QUERY_QP,
	OP_DESTROY_QP,
	OP_CTL_QUERY_DEVICE,
	OP_CTL_QUERY_PORT,
	OP_CTL_MODIFY_PORT,
	OP_CTL_MODIFY_EV_FMT,
	OP_CTL_QUERY_EV_FMT,
	OP_CTL_MODIFY_EV,
	OP_CTL_QUERY_EV,
	OP_CTL_MODIFY_CC,
	OP_CTL_QUERY_CC,
	OP_CTL_CREATE_EV_CQ,
	OP_CTL_POLL_EV,
	OP_CTL_ARM_EV_CQ,
	OP_CTL_DESTROY_EV_CQ,
	OP_CTL_PROBE,
};

/* The page of a context. */
struct wire_page {
	uint32_t rung; /* the doorbell rang and the agent has not looked yet */
};

/* A completion queue's ring: header, then entries. Each counter has one writer and runs on without wrapping to 0. */
struct wire_cq {
	uint32_t tail; /* agent: entries made */
	uint32_t overflow;
	uint8_t pad0[56];
	uint32_t head;  /* program: entries taken */
	uint32_t armed; /* program: 1 any, 2 solicited; the agent sets 0 when it has sent a notification */
	uint8_t pad1[56];
};

struct wire_cqe {
	uint64_t wr_id;
	uint32_t status, opcode, vendor_err, byte_len;
	uint32_t imm; /* as on the wire */
	uint32_t qp_num, flags;
	uint32_t over; /* requests of its ring that are over by now, this one included */
	uint32_t pad[4];
};

#define WIRE_MAX_SGE 16
#define WIRE_MAX_INLINE 256

/* A queue pair's rings: header, send slots, receive slots. */
struct wire_qp {
	uint32_t sq_tail; /* program: requests posted */
	uint32_t rq_tail;
	uint8_t pad0[56];
	uint32_t state; /* agent: enum ibv_qp_state */
	uint8_t pad1[60];
};

struct wire_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct wire_send {
	uint64_t wr_id;
	uint32_t opcode, flags;
	uint64_t remote_addr;
	uint32_t rkey, imm; /* imm as on the wire */
	uint32_t num_sge, inline_len;
	uint8_t pad[24];
	union {
		struct wire_sge sge[WIRE_MAX_SGE];
		uint8_t inline_data[WIRE_MAX_INLINE];
	} data;
};

struct wire_recv {
	uint64_t wr_id;
	uint64_t pad;
};

/* What the events pipe of a context carries, and that of a channel (handle only). */
struct wire_event {
	uint32_t type; /* enum ibv_event_type */
	uint32_t handle;
};

/* An EV event, an entry of an EV operation and a probe as bytes of a call. */
struct wire_ev {
	uint8_t value[32];
	uint32_t port;
};

struct wire_ev_event {
	uint64_t profile;
	struct wire_ev ev;
	uint32_t dropped, state;
};

struct wire_ev_entry {
	struct wire_ev ev, ev_new;
	uint32_t state, flags;
};

struct wire_field {
	uint32_t width, init_val, min_val, max_val, mask;
};

struct wire_probe {
	uint8_t dgid[16];
	struct wire_ev ev;
	uint32_t format, id;
};

struct wire_probe_answer {
	uint32_t id, port, rtt, adjusted;
};

#endif
