"""Pure decisions: facts and `now` come in, values with reasons go out; nothing here reads or writes anything."""
