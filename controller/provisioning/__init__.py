"""Provisioning: intended entries, writes, audits, and the verification of every cable."""
