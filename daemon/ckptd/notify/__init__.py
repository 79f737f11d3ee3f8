"""Ways to reach people, each in a file of its own; `service.post` makes those that are configured."""
