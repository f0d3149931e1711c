/* The rest of libibverbs that works on a context: refused, so that no call of a program reaches a library that would
 * take our objects for a kernel's. */
#include "lib.h"

#define REFUSE(result, name, ...)      \
	EXPORT result name(__VA_ARGS__) \
	{                               \
		errno = EOPNOTSUPP;     \
		return (result)no;      \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define no 0
REFUSE(struct ibv_ah *, ibv_create_ah, struct ibv_pd *pd, struct ibv_ah_attr *attr)
REFUSE(struct ibv_ah *, ibv_create_ah_from_wc, struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
REFUSE(struct ibv_comp_channel *, ibv_create_comp_channel, struct ibv_context *context)
REFUSE(struct ibv_cq *, ibv_create_cq, struct ibv_context *context, int cqe, void *user,
       struct ibv_comp_channel *channel, int vector)
REFUSE(struct ibv_qp *, ibv_create_qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
REFUSE(struct ibv_srq *, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
REFUSE(struct ibv_context *, ibv_import_device, int fd)
REFUSE(struct ibv_mr *, ibv_import_mr, struct ibv_pd *pd, uint32_t handle)
REFUSE(struct ibv_pd *, ibv_import_pd, struct ibv_context *context, uint32_t handle)
REFUSE(struct ibv_dm *, ibv_import_dm, struct ibv_context *context, uint32_t handle)
REFUSE(struct ibv_mr *, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
       int access)
#undef no
#define no EOPNOTSUPP
REFUSE(int, ibv_init_ah_from_wc, struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
       struct ibv_ah_attr *attr)
REFUSE(int, ibv_destroy_ah, struct ibv_ah *ah)
REFUSE(int, ibv_destroy_comp_channel, struct ibv_comp_channel *channel)
REFUSE(int, ibv_destroy_cq, struct ibv_cq *cq)
REFUSE(int, ibv_resize_cq, struct ibv_cq *cq, int cqe)
REFUSE(int, ibv_destroy_qp, struct ibv_qp *qp)
REFUSE(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
REFUSE(int, ibv_query_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
REFUSE(int, ibv_query_qp_data_in_order, struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
REFUSE(int, ibv_destroy_srq, struct ibv_srq *srq)
REFUSE(int, ibv_modify_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
REFUSE(int, ibv_query_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr)
REFUSE(int, ibv_attach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
REFUSE(int, ibv_detach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
REFUSE(int, ibv_rereg_mr, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
REFUSE(int, ibv_set_ece, struct ibv_qp *qp, struct ibv_ece *ece)
REFUSE(int, ibv_query_ece, struct ibv_qp *qp, struct ibv_ece *ece)
REFUSE(int, ibv_resolve_eth_l2_from_gid, struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
       uint16_t *vid)
#undef no
#define no -1
REFUSE(int, ibv_get_cq_event, struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return NULL;
}
