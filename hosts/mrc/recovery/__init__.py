"""What was sent and what of it is lost: window, feedback, loss, and the account of a QP."""
