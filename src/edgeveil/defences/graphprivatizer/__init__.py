"""GraphPrivatizer (Joshi et al., TMLR 2024) and its relatives: local reports of lists, features and labels."""
