"""Channels that reach people: mail, chat, the log."""
