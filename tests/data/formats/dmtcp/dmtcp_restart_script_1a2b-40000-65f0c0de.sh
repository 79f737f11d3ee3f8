#!/bin/bash
given_ckpt_files="\
  dmtcp/ckpt_solver_1a2b-40000-65f0c0de.dmtcp \
  dmtcp/ckpt_solver_1a2b-41000-65f0c0df.dmtcp \
"
dmtcp_restart $given_ckpt_files
