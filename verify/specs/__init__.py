"""What refkit promises of every kernel that it ships, one module per operator; found by listing this folder."""
