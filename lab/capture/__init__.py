"""Frames of a running lab in pcapng files: taken from its cables, whole or around each fault."""
