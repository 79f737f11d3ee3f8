"""Ways to reach people, each in a file of its own; `service.build_notify` makes those that are configured."""
