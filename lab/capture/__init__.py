"""Frames of a running lab in pcapng files: captured at its cables, all of them or those around each fault."""
