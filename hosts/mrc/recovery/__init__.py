"""Requestor: window, feedback, loss, and the account of a QP."""
