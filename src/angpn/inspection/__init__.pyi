from .map_display import MapDisplay
from .reliability_display import ReliabilityDisplay
from .report_view import Report

__all__ = ["MapDisplay", "ReliabilityDisplay", "Report"]
