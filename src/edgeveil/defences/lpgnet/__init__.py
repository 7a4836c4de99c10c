"""LPGNet (Kolluri et al., CCS 2022): its count query, noise, stack, read-outs, audit and statistics."""
