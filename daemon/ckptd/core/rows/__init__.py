"""How values are written in rows: those of the database, and those that requests carry to the agent."""
