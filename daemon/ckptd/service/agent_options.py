"""The options of the programs of the agent, which `agent_start` gives them."""

DEFAULTS = "--defaults"  # read no configuration
LEASE = "--lease="  # the descriptor of the memory that shows until when the main process may act
PERSON = "--person"  # started by a person's command
