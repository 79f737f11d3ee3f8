"""The options of the programs of the agent, which `agent_start` gives them."""

DEFAULTS = "--defaults"  # read no configuration
PERSON = "--person"  # started by a person's command
