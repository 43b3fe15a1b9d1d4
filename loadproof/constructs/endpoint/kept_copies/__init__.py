"""The copy count of a scaled component, asked of SageMaker before every change of it."""
