"""Facts about published data sets; README.md says where each comes from."""
