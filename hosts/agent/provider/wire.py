"""Protocol between lib_mrc.so and the agent: the numbers and layouts of hosts/libmrc/wire.h, which explains them.

Numbers of libibverbs and of the MRC headers are here too, as far as the agent has to know them.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import Final

VERSION: Final = 1
MAX_NUMBERS: Final = 24
MAX_BYTES: Final = 160 * 1024

Op = IntEnum(
    "Op",
    "HELLO QUERY_DEVICE QUERY_PORT QUERY_GID ALLOC_PD DEALLOC_PD REG_MR DEREG_MR CREATE_CHANNEL DESTROY_CHANNEL "
    "CREATE_CQ DESTROY_CQ CREATE_QP MODIFY_QP QUERY_QP DESTROY_QP CTL_QUERY_DEVICE CTL_QUERY_PORT CTL_MODIFY_PORT "
    "CTL_MODIFY_EV_FMT CTL_QUERY_EV_FMT CTL_MODIFY_EV CTL_QUERY_EV CTL_MODIFY_CC CTL_QUERY_CC CTL_CREATE_EV_CQ "
    "CTL_POLL_EV CTL_ARM_EV_CQ CTL_DESTROY_EV_CQ CTL_PROBE",
)

HEAD: Final = struct.Struct("=II")
ANSWER: Final = struct.Struct("=iI")
U64: Final = struct.Struct("=Q")
EVENT: Final = struct.Struct("=II")  # type, handle

PAGE_BYTES: Final = 4
CQ_TAIL, CQ_OVERFLOW, CQ_HEAD, CQ_ARMED = 0, 1, 16, 17  # counters are places among 32-bit words
CQ_ENTRIES: Final = 128  # bytes
CQE: Final = struct.Struct("=QIIII4sIII16x")
QP_SQ_TAIL, QP_RQ_TAIL, QP_STATE = 0, 1, 16
QP_SLOTS: Final = 128
SEND: Final = struct.Struct("=QIIQI4sII24x256x")
SEND_HEAD: Final = struct.Struct("=QIIQI4sII")
SEND_DATA: Final = 64  # offset of scatter list or inline data
RECV: Final = struct.Struct("=QQ")
SGE: Final = struct.Struct("=QII")
MAX_SGE: Final = 16
MAX_INLINE: Final = 256

VENDOR_BYTES: Final = 128
EV: Final = struct.Struct("=32sI")
EV_EVENT: Final = struct.Struct("=Q32sIII4x")
EV_ENTRY: Final = struct.Struct("=32sI32sIII")
FIELD: Final = struct.Struct("=IIIII")
PROBE: Final = struct.Struct("=16s32sIII")
PROBE_ANSWER: Final = struct.Struct("=IIII")

INLINE, SIGNALED = 8, 2
WRITE, WRITE_WITH_IMM = 0, 1
OPCODES: Final = {WRITE: "RDMA_WRITE", WRITE_WITH_IMM: "RDMA_WRITE_WITH_IMM"}
WC_WRITE, WC_RECV_WITH_IMM, WC_FLAG_IMM = 1, 129, 2
WC_STATUS: Final = {
    "SUCCESS": 0, "LOC_LEN_ERR": 1, "LOC_QP_OP_ERR": 2, "LOC_PROT_ERR": 4, "WR_FLUSH_ERR": 5, "LOC_ACCESS_ERR": 8,
    "REM_INV_REQ_ERR": 9, "REM_ACCESS_ERR": 10, "REM_OP_ERR": 11, "RETRY_EXC_ERR": 12,
}  # fmt: skip
WC_GENERAL_ERR: Final = 21
EVENT_CQ_ERR, EVENT_QP_FATAL, EVENT_PORT_ACTIVE, EVENT_PORT_ERR = 0, 1, 9, 10
ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE = 1, 2


class IbvQpState(IntEnum):
    """enum ibv_qp_state, as far as a QP of MRC has them."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    ERR = 6


class V(IntFlag):
    """enum ibv_qp_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    DEST_QPN = 1 << 20


class M(IntFlag):
    """enum mrc_qp_attr_mask."""

    MAX_WIMM = 1 << 0
    MAX_WIMM_DEST = 1 << 1
    MPR = 1 << 2
    MPR_DEST = 1 << 3
    TIMEOUT = 1 << 4
    EV_PROFILE = 1 << 5
    CC_PROFILE = 1 << 6
    HINT = 1 << 7
    RETRY_CNT = 1 << 8
    CAP = 1 << 9
    VENDOR_CFG = 1 << 31
